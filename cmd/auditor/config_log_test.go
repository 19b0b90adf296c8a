package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event/view"
)

// noted is a log of configurations in memory.
type noted struct {
	all []view.ConfigChange
	err error
}

func (n *noted) ConfigLog(_ context.Context, limit int) ([]view.ConfigChange, error) {
	return n.all[:min(limit, len(n.all))], n.err
}

func (n *noted) LogConfig(_ context.Context, c view.ConfigChange) error {
	n.all = append([]view.ConfigChange{c}, n.all...)
	return nil
}

func TestConfigurationIsNotedWhenItDiffers(t *testing.T) {
	at := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	n := &noted{}
	record := func(change func(*config.Config), now time.Time) {
		t.Helper()
		c := config.Default()
		change(&c)
		e, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		if err := (&configRecorder{e, n, slog.New(slog.DiscardHandler)}).record(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	same := func(*config.Config) {}
	record(same, at)
	record(same, at.Add(time.Hour))
	if len(n.all) != 1 || n.all[0].Changed != "" || !n.all[0].Time.Equal(at) {
		t.Fatalf("noted %+v", n.all)
	}
	record(func(c *config.Config) { c.Rules.StuckAfter = time.Hour }, at.Add(-time.Hour)) // by a clock that is behind
	if len(n.all) != 2 || n.all[0].Changed != "- rules.stuck_after: 15m\n+ rules.stuck_after: 1h" || !n.all[0].Time.After(at) {
		t.Fatalf("noted %+v", n.all[0])
	}
	record(same, at.Add(2*time.Hour)) // back again
	if len(n.all) != 3 || n.all[0].Digest != n.all[2].Digest {
		t.Errorf("noted %+v", n.all[0])
	}
}
