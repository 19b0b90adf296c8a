package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"auditor/embedded/kafka"
	"auditor/embedded/kafka/testbroker"
)

const (
	topic      = "task-events"
	partitions = 8
)

// broker is a Kafka that can be killed.
type broker interface {
	Addr() string
	Kill() // as kill -9 does
	Restart(ctx context.Context) error
	Stop() error
}

// startBroker starts the broker of a name, with its topic.
func startBroker(ctx context.Context, name, dir string) (broker, error) {
	switch name {
	case "embedded":
		return startEmbedded(ctx, dir)
	case "kafka":
		return startKafka(ctx, dir)
	}
	return nil, fmt.Errorf("broker %q: must be embedded or kafka", name)
}

func startKafka(ctx context.Context, dir string) (broker, error) {
	log, err := os.Create(filepath.Join(dir, "broker.log"))
	if err != nil {
		return nil, err
	}
	b, err := testbroker.Start(ctx, testbroker.Config{Data: filepath.Join(dir, "kafka"), Log: log, Properties: map[string]string{
		"group.min.session.timeout.ms": "6000", // Kafka's own default
	}})
	if err != nil {
		return nil, err
	}
	if err := b.CreateTopic(ctx, topic, partitions, nil); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// embeddedBroker is the embedded broker in a process of its own.
type embeddedBroker struct {
	process
	addr string
}

// brokerCommand makes this program that process.
const brokerCommand = "broker"

// runBroker is that process: it serves until it is killed.
func runBroker(dir, listen string) error {
	b, err := kafka.Start(kafka.Config{
		Data: dir, Listen: listen, Topics: []string{topic}, Partitions: partitions, RetentionBytes: -1,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer b.Stop()
	select {}
}

func startEmbedded(ctx context.Context, dir string) (broker, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &embeddedBroker{addr: addr, process: process{
		name: "broker", command: []string{self, brokerCommand, filepath.Join(dir, "kafka"), addr}, log: filepath.Join(dir, "broker.log"),
	}}
	return b, b.Restart(ctx)
}

func (b *embeddedBroker) Addr() string { return b.addr }
func (b *embeddedBroker) Kill()        { b.kill() }

func (b *embeddedBroker) Stop() error {
	b.kill()
	return nil
}

func (b *embeddedBroker) Restart(ctx context.Context) error {
	if err := b.start(); err != nil {
		return err
	}
	return answers(ctx, b.addr)
}

// answers waits until a broker answers.
func answers(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := client.Ping(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("the broker does not answer: %w", err)
		}
	}
}

// leave lets members leave the ingesters' group. Whether it succeeds does not matter.
func leave(addr string, members []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = "auditor"
	for _, id := range members {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		request.Members = append(request.Members, m)
	}
	_, _ = request.RequestWith(ctx, client)
}

var portsGiven atomic.Int64

// freeAddr is a loopback address that nobody listens on, and another each time. Its port is below those that outgoing
// connections get: one of these could take it while who listens there is down.
func freeAddr() (string, error) {
	const lowest, count = 12_000, 8_000
	first := int64(os.Getpid()) * 37
	for range count {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+(first+portsGiven.Add(1))%count))
		if err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", errors.New("no free port")
}
