package queries

import (
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"auditor/embedded/clickhouse/testserver"
	"auditor/event"
	"auditor/internal/access"
)

// someUsers are of every kind that there is trouble with; the password of each is its name.
const someUsers = `<profiles><default/>
	<readonly><readonly>1</readonly></readonly>
	<strict><constraints><max_execution_time><max>20</max></max_execution_time><async_insert><const/></async_insert></constraints></strict>
</profiles><quotas><default/></quotas><users>
	<default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
	<readonly><password>readonly</password><networks><ip>::/0</ip></networks><profile>readonly</profile><quota>default</quota></readonly>
	<strict><password>strict</password><networks><ip>::/0</ip></networks><profile>strict</profile><quota>default</quota></strict>
	<reader><password>reader</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
		<grants><query>GRANT SELECT ON auditor.*</query></grants></reader>
	<writer><password>writer</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
		<grants><query>GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON auditor.*</query></grants></writer>
	<migrating><password>migrating</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
		<grants><query>GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON fresh.*</query></grants></migrating>
	<guest><password>guest</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
		<grants><query>GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE, CREATE TABLE, CREATE VIEW, DROP TABLE, ALTER TABLE, ALTER VIEW ON made.*</query><query>GRANT TABLE ENGINE ON *</query></grants></guest>
	<auditor><password>auditor</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
		<grants>GRANTS</grants></auditor>
</users>`

// withGrants gives the user auditor exactly what a configuration says that it needs.
func withGrants(c Config) string {
	queries := ""
	always, migrate := c.Grants()
	for _, grant := range append(always, migrate...) {
		statement, _, _ := strings.Cut(grant, " TO ")
		queries += "<query>" + statement + "</query>"
	}
	return strings.Replace(someUsers, "GRANTS", queries, 1)
}

// opened gives a store that is closed with the test.
func opened(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func wantErrors(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v\nlacks %q", err, text)
		}
	}
	if !isPermanent(err) {
		t.Errorf("%v is not permanent", err)
	}
}

func isPermanent(err error) bool {
	var e interface{ Permanent() bool }
	return errors.As(err, &e) && e.Permanent()
}

func TestCheckOfOneServer(t *testing.T) {
	at, err := testserver.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	config := DefaultConfig()
	config.Addresses, config.Username = at, "auditor"
	startServer(t, testserver.Config{Data: t.TempDir(), Native: at[0], Users: withGrants(config)})
	as := func(user string, change ...func(*Config)) *Store {
		c := config
		c.Username, c.Password = user, access.Secret(user)
		for _, f := range change {
			f(&c)
		}
		return opened(t, c)
	}
	t.Run("good", func(t *testing.T) {
		s := as("auditor")
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.InsertBatch(t.Context(), mixedBatch(10)); err != nil {
			t.Error(err)
		}
		for _, days := range []int{7, 0} {
			s.config.RetentionDays = days
			if _, err := s.MigrateAgain(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if version, err := s.ServerVersion(t.Context()); err != nil || older(version, "26.1") {
			t.Errorf("version %s, %v", version, err)
		}
	})
	t.Run("readonly", func(t *testing.T) {
		wantErrors(t, as("readonly").Check(t.Context()), "the setting async_insert = 0 is refused for user readonly", "in readonly mode",
			"the setting max_execution_time = 25 is refused")
	})
	t.Run("constraints", func(t *testing.T) {
		err := as("strict").Check(t.Context())
		wantErrors(t, err, "the setting async_insert = 0 is refused for user strict", "the setting max_execution_time = 25 is refused", "greater than 20")
		if strings.Contains(err.Error(), "insert_deduplication_token") {
			t.Errorf("%v names a setting that is not refused", err)
		}
		s := as("strict", func(c *Config) { c.InsertTimeout = 10 * time.Second })
		if err := s.Check(t.Context()); err == nil || strings.Contains(err.Error(), "max_execution_time") {
			t.Errorf("an insert time-out that fits is refused: %v", err)
		}
	})
	t.Run("rights", func(t *testing.T) {
		wantErrors(t, as("reader").Check(t.Context()), "the user reader lacks rights: GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON auditor.* TO `reader`")
		if err := as("writer").Check(t.Context()); err != nil { // nothing is left to migrate
			t.Error(err)
		}
		of := event.PartitionID{Topic: "task-events"}
		if err := as("writer").JoinLedger(t.Context(), of, []event.Covered{{First: 0, Last: 100, Records: 10, Events: 10}}); err != nil {
			t.Error(err)
		}
		fresh := as("writer", func(c *Config) { c.Database = "fresh" })
		wantErrors(t, fresh.Check(t.Context()), "GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON fresh.* TO `writer`")
		migrating := as("migrating", func(c *Config) { c.Database = "fresh" })
		wantErrors(t, migrating.Check(t.Context()), "GRANT CREATE DATABASE ON fresh.* TO `migrating`; GRANT CREATE TABLE, CREATE VIEW, DROP TABLE, ALTER TABLE, ALTER VIEW ON fresh.* TO `migrating`; GRANT TABLE ENGINE ON * TO `migrating`")
	})
	t.Run("a database that somebody else has made", func(t *testing.T) {
		s := as("guest", func(c *Config) { c.Database = "made" })
		wantErrors(t, s.Check(t.Context()), "the user guest lacks rights: GRANT CREATE DATABASE ON made.* TO `guest`")
		err := as("default", func(c *Config) { c.Password = "" }).withoutDatabase(func(bare *Store) error {
			return bare.execText(t.Context(), "CREATE DATABASE made")
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("no such cluster", func(t *testing.T) {
		err := as("default", func(c *Config) { c.Cluster, c.Password = "main", "" }).Check(t.Context())
		wantErrors(t, err, `no cluster is named "main" (clickhouse.cluster); the server knows none`, "made without a cluster")
	})
	t.Run("made without a cluster", func(t *testing.T) {
		s := as("default", func(c *Config) { c.Cluster, c.Password = "main", "" })
		s.layout.onCluster = false
		_, err := s.Migrate(t.Context())
		wantErrors(t, err, "the tables of the database auditor were made without a cluster")
	})
	t.Run("away", func(t *testing.T) {
		s := as("default", func(c *Config) { c.Addresses, c.DialTimeout = []string{"127.0.0.1:1"}, time.Second })
		if err := s.Check(t.Context()); err == nil || isPermanent(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCheckOfACluster(t *testing.T) {
	at, err := testserver.Addresses(3)
	if err != nil {
		t.Fatal(err)
	}
	config := DefaultConfig()
	config.Addresses, config.Cluster, config.RetentionDays = at[:2], "two", 0
	config.Username, config.Password = "auditor", "auditor"
	replica := func(address string) string {
		host, port, _ := net.SplitHostPort(address)
		return "<replica><host>" + host + "</host><port>" + port + "</port><user>auditor</user><password>auditor</password></replica>"
	}
	xml := "<remote_servers>" +
		"<two><shard>" + replica(at[0]) + "</shard><shard>" + replica(at[1]) + "</shard></two>" +
		"<twins><shard>" + replica(at[0]) + "</shard><shard>" + replica(at[2]) + "</shard></twins>" +
		"<strangers><shard>" + replica(at[0]) + replica(at[1]) + "</shard></strangers>" +
		"<half><shard>" + replica(at[0]) + "<replica><host>127.0.0.1</host><port>1</port></replica></shard></half>" +
		"<dead><shard>" + replica(at[0]) + "</shard><shard><replica><host>127.0.0.1</host><port>1</port></replica></shard></dead>" +
		"</remote_servers>"
	for i, macros := range []string{"<shard>1</shard><replica>a</replica>", "<shard>2</shard><replica>a</replica>", "<shard>1</shard><replica>a</replica>"} {
		startServer(t, testserver.Config{Data: t.TempDir(), Native: at[i], XML: xml + "<macros>" + macros + "</macros>", Users: withGrants(config)})
	}
	on := func(cluster string, change ...func(*Config)) *Store {
		c := config
		c.Cluster = cluster
		for _, f := range change {
			f(&c)
		}
		return opened(t, c)
	}
	for _, c := range []struct {
		name  string
		store *Store
		want  []string // nothing: good
	}{
		{"good", on("two"), nil},
		{"a replica away", on("half"), nil},
		{"the same macros in two shards", on("twins"), []string{"would be the same replica of the same shard"}},
		{"other macros in one shard", on("strangers"), []string{"the macros of the cluster's servers make 2 shards, but strangers has 1"}},
		{"a macro that is missing", on("two", func(c *Config) { c.Replica = "{replica}-{rack}" }), []string{at[0][len("127.0.0.1"):] + " has no macro {rack}", at[1][len("127.0.0.1"):] + " has no macro {rack}"}},
		{"unknown", on("three"), []string{`no cluster is named "three" (clickhouse.cluster); the server knows dead, half, strangers, twins, two`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.store.Check(t.Context())
			if len(c.want) > 0 {
				wantErrors(t, err, c.want...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("tables", func(t *testing.T) {
		first := on("two", func(c *Config) { c.Addresses = at[:1] })
		first.layout.replicated, first.layout.onCluster = false, false
		if err := first.begin(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		lacks := at[1][len("127.0.0.1"):] + " lacks 2 tables and views of the database auditor, such as schema_migrations: run `auditor migrate --again`"
		if err := on("two").CheckServers(t.Context()); err == nil || !strings.Contains(err.Error(), lacks) || isPermanent(err) {
			t.Errorf("got %v", err)
		}
		wantErrors(t, on("half").Check(t.Context()), `were made for the cluster "two", and clickhouse.cluster is "half"`)
		wantErrors(t, on("").Check(t.Context()), `were made for the cluster "two": set clickhouse.cluster to it`)
		_, err := on("").Migrate(t.Context())
		wantErrors(t, err, `were made for the cluster "two"`)
		stale := &Error{Op: "store/schema_migrations", Code: codeAllReplicasStale, Err: errors.New("stale")}
		if err := on("two").lacking(t.Context(), stale); !strings.Contains(err.Error(), lacks) {
			t.Errorf("got %v", err)
		}
	})
	// The last, for the server may not survive it.
	t.Run("a shard away", func(t *testing.T) {
		if err := on("dead").Check(t.Context()); err == nil || isPermanent(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{"24.8.1.2": false, "24.8": false, "24.7.9": true, "24": true, "25.1": false, "23.12": true, "100.1": false, "": true, "x.y": true} {
		if older(version, "24.8") != want {
			t.Errorf("%q is older than 24.8: %t", version, !want)
		}
	}
}

// The page for those who set up servers names the rights that the check asks for, and every setting that is sent.
func TestDocumentedRightsAndSettings(t *testing.T) {
	text, err := os.ReadFile("../docs/clickhouse.md")
	if err != nil {
		t.Fatal(err)
	}
	config := DefaultConfig()
	config.Cluster, config.Username = "main", "auditor"
	always, migrate := config.Grants()
	for _, grant := range append(always, migrate...) {
		if !strings.Contains(string(text), "\n"+grant+";\n") {
			t.Errorf("docs/clickhouse.md lacks %s;", grant)
		}
	}
	s, err := Open(config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	settings := s.layout.sessionSettings()
	maps.Copy(settings, s.insertSettings("", ""))
	for name := range settings {
		quiet := []string{"skip_unavailable_shards", "parallel_distributed_insert_select", "optimize_distributed_group_by_sharding_key", "optimize_skip_unused_shards"}
		if !strings.Contains(string(text), "`"+name) && !slices.Contains(quiet, name) {
			t.Errorf("docs/clickhouse.md lacks the setting %s", name)
		}
	}
}
