package main

import (
	"log/slog"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/cmd/auditor/config"
	"auditor/embedded/kafka"
)

func TestMemoryLimit(t *testing.T) {
	for _, test := range []struct {
		name   string
		roles  []string
		broker *kafka.Broker
		want   int64
	}{
		{"ingest alone", []string{roleIngest}, nil, 432 << 20},
		{"everything", allRoles, nil, 688 << 20},
		{"no ingest", []string{roleRules, roleWeb}, nil, math.MaxInt64},
		{"with a broker", allRoles, new(kafka.Broker), math.MaxInt64},
	} {
		a := newApp(config.Default(), test.roles, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		a.broker = test.broker
		if got := a.memoryLimit(); got != test.want {
			t.Errorf("%s: %d MiB, want %d", test.name, got>>20, test.want>>20)
		}
	}
}
