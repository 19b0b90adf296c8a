package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"auditor/embedded/kafka/testbroker"
)

// broker is what holds the topic, in a process of its own.
type broker struct {
	name    string // for people
	address string
	pid     int
	stop    func() error
}

// startBroker starts Apache Kafka or, where that is asked for or Apache Kafka is not there, the embedded broker.
func startBroker(ctx context.Context, o options, dir string, stderr io.Writer) (*broker, error) {
	if o.broker != "embedded" {
		k, err := testbroker.Start(ctx, testbroker.Config{
			Data:       filepath.Join(dir, "kafka"),
			Heap:       1024,
			JVM:        []string{"-XX:TieredStopAtLevel=4"},
			Properties: map[string]string{"log.segment.bytes": "1073741824", "log.retention.ms": "-1", "log.retention.check.interval.ms": "300000"},
		})
		if err == nil {
			return &broker{"Apache Kafka 4", k.Addr(), k.PID(), k.Stop}, nil
		}
		if o.broker == "kafka" || !errors.Is(err, testbroker.ErrNoJars) && !errors.Is(err, testbroker.ErrNoJava) {
			return nil, err
		}
	}
	c, err := startChild(stderr, brokerSubcommand, "--data", filepath.Join(dir, "kafka"))
	if err != nil {
		return nil, err
	}
	address, err := c.line()
	if err != nil {
		return nil, err
	}
	return &broker{"the embedded one (franz-go's kfake)", address, c.pid(), c.stop}, nil
}
