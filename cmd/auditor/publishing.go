package main

import (
	"context"
	"errors"
	"net"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/emit"
	"auditor/event"
	"auditor/web"
)

// emitConfig is how events reach the brokers of a configuration, which must name some: to its first topic, under its security.
func emitConfig(c config.Config) (emit.Config, error) {
	encryption, mechanism, err := c.Kafka.Security()
	if err != nil {
		return emit.Config{}, err
	}
	return emit.Config{Brokers: c.Kafka.Brokers, Topic: c.Kafka.Topics[0], TLS: encryption, SASL: mechanism}, nil
}

// publishing lets the intake write to Kafka.
type publishing struct{ *emit.Publisher }

// Publish returns once all in-sync replicas have the records, or says which of them Kafka will never take.
func (p publishing) Publish(ctx context.Context, records []event.Record) (map[int]error, error) {
	err := p.Publisher.Publish(ctx, records)
	failed := new(emit.PublishError)
	if !errors.As(err, &failed) {
		return nil, err
	}
	refused := make(map[int]error)
	for i, one := range failed.Errors {
		switch {
		case one == nil:
		case errors.As(one, new(*emit.RefusedError)):
			refused[i] = one
		default:
			return nil, err
		}
	}
	return refused, nil
}

// intake is what taking events over HTTP rests on; nil where there is no Kafka to send them to.
func (a *app) intake() (*web.Intake, error) {
	if len(a.config.Kafka.Brokers) == 0 || !a.has(roleWeb) {
		return nil, nil
	}
	var tokens func() web.Tokens
	if name := a.config.Intake.TokensFile; name != "" {
		file, err := openTokens(name, a.log, time.Now)
		if err != nil {
			return nil, err
		}
		tokens = file.current
	}
	decoder, err := event.NewDecoder(a.config.Decoder())
	if err != nil {
		return nil, err
	}
	to, err := emitConfig(a.config)
	if err != nil {
		return nil, err
	}
	publisher, err := emit.NewPublisher(to)
	if err != nil {
		return nil, err
	}
	a.onStop("intake", func(context.Context) error { return publisher.Close() })
	return &web.Intake{Config: a.config.Intake, Tokens: tokens, Loopback: isLoopback(a.config.Listen), Decoder: decoder, Publisher: publishing{publisher}}, nil
}

// isLoopback reports whether an address is one that only this machine reaches.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
