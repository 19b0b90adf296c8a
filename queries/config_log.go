package queries

import (
	"context"
	"time"

	"auditor/event/view"
)

// ConfigLog tells what the rules went by, the newest first.
func (s *Store) ConfigLog(ctx context.Context, limit int) ([]view.ConfigChange, error) {
	type row struct {
		Time    time.Time `ch:"time"`
		Digest  string    `ch:"digest"`
		Section string    `ch:"section"`
		Changed string    `ch:"changed"`
		Program string    `ch:"program"`
	}
	rows, err := selectAll[row](ctx, s, "store/config_log", params{"limit": max(limit, 1)})
	return pluck(rows, func(r *row) view.ConfigChange { return view.ConfigChange(*r) }), err
}

// LogConfig notes what the rules go by from now on.
func (s *Store) LogConfig(ctx context.Context, c view.ConfigChange) error {
	return s.insert(ctx, "config_log", "", []values{
		{"time", []time.Time{storable(c.Time)}},
		{"digest", []string{c.Digest}},
		{"section", []string{c.Section}},
		{"changed", []string{c.Changed}},
		{"program", []string{c.Program}},
	})
}

// ConfigLog tells what the rules went by, the newest first.
func (p *Pages) ConfigLog(ctx context.Context, limit int) ([]view.ConfigChange, error) {
	return p.store.ConfigLog(ctx, limit)
}
