// Package querytest gives tests a store on a real ClickHouse, with all tables.
package querytest

import (
	"context"
	"net"
	"testing"
	"time"

	"auditor/embedded/clickhouse/chtest"
	"auditor/queries"
)

// Store gives a store of its own to the test, in an empty database of the engine that the package's tests share, where
// nothing is ever too old to be kept. It ends the test if the machine lacks the engine. The package needs chtest.Main.
func Store(t testing.TB) *queries.Store {
	t.Helper()
	engine := chtest.Start(t)
	config := queries.DefaultConfig()
	config.Database = chtest.Database(t)
	config.RetentionDays = 0
	store, err := queries.Open(config, queries.Options{
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	return store
}
