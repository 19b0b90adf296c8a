package queries

import (
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	gocmp "github.com/google/go-cmp/cmp"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/testserver"
	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/proof"
	"auditor/event/reject"
	"auditor/event/silence"
	"auditor/event/userrule"
	"auditor/event/view"
	"auditor/internal/require"
)

// shards are two servers of one cluster, each a shard of one replica. Their tables are not Replicated, for these servers
// exchange no parts; all else is as on any cluster.
type shards struct {
	*Store  // which reaches both, the first to begin with
	servers []*testserver.Server
	each    []*Store // reaches one of them
	configs []testserver.Config
}

// restart starts both servers anew: what was tried may have ended one of them, now or in a moment.
func (s *shards) restart(t *testing.T) {
	t.Helper()
	for i, server := range s.servers {
		server.Stop()
		s.servers[i] = startServer(t, s.configs[i])
	}
}

func startServer(t testing.TB, config testserver.Config) *testserver.Server {
	t.Helper()
	s, err := testserver.Start(t.Context(), config)
	if errors.Is(err, clickhouse.ErrNoLibrary) {
		require.Missing(t, "libchdb", "npm ci --prefix embedded/clickhouse")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Output())
		}
		s.Stop()
	})
	return s
}

func newShards(t testing.TB) *shards {
	t.Helper()
	at, err := testserver.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	xml := ""
	for _, address := range at {
		host, port, _ := net.SplitHostPort(address)
		xml += "<shard><internal_replication>true</internal_replication><replica><host>" + host + "</host><port>" + port + "</port></replica></shard>"
	}
	s := &shards{}
	open := func(addresses ...string) *Store {
		config := DefaultConfig()
		config.Addresses, config.Cluster, config.RetentionDays = addresses, "two", 0
		store, err := Open(config, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		store.layout.replicated, store.layout.onCluster = false, false
		return store
	}
	for _, address := range at {
		s.configs = append(s.configs, testserver.Config{Data: t.TempDir(), Native: address, XML: "<remote_servers><two>" + xml + "</two></remote_servers>"})
		s.servers = append(s.servers, startServer(t, s.configs[len(s.servers)]))
		s.each = append(s.each, open(address))
	}
	s.Store = open(at...)
	migrations, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range s.each {
		if err := one.begin(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range migrations {
		for _, one := range s.each {
			for _, statement := range clusterDDL(t, one.layout, m) {
				if err := one.execText(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
		}
		if err := s.exec(t.Context(), "store/record_migration", params{"name": m.name, "checksum": m.checksum}); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range s.each {
		if applied, err := one.Migrate(t.Context()); err != nil || len(applied) > 0 {
			t.Fatalf("applied %v, %v", applied, err)
		}
	}
	return s
}

// everyday fills a store with some of all: tasks that are well, that repeat effects, that retry together and that never
// end, with events without a key, rejects, findings and what became of them.
func everyday(t testing.TB, s *Store) {
	t.Helper()
	types := []event.Type{event.Received, event.Started, event.Effected, event.Retried, event.Started, event.Effected, event.Succeeded, event.Heartbeat}
	const batches, size = 8, 100
	for i := range batches {
		b := event.Batch{Topic: "task-events", Partition: int32(i % 2), First: int64(i / 2 * size), Last: int64(i/2*size + size - 1), Records: size, Time: noon}
		for j := range size {
			e := anEvent(b.First + int64(j))
			task := (i*size + j) / len(types)
			e.Partition, e.Type, e.ID = b.Partition, types[j%len(types)], fmt.Sprint("e", i, "-", j)
			e.Time = noon.Add(time.Duration(j%len(types)) * time.Second)
			e.TaskID, e.Task, e.Worker, e.PID = fmt.Sprint("t", task), "shop.settle", fmt.Sprint("w", j%3), j%2
			e.BusinessKey, e.RequestID = fmt.Sprint("k", task%40), fmt.Sprint("r", task)
			switch {
			case task%5 == 0:
				e.BusinessKey = ""
			case task%7 == 0 && e.Type == event.Received:
				e.BusinessKey = ""
			case task%11 == 0 && e.Type == event.Succeeded:
				e.BusinessKey = "k0"
			}
			e.Emitter, e.Seq = e.Worker, int64(i*size+j)
			if e.Type == event.Retried {
				e.Error = &event.Error{Type: "ConnectionError", Permanent: task%2 == 0}
			}
			if e.Type == event.Retried || j%len(types) == 4 {
				e.Retries, e.RetryIn = 1, 1
			}
			if e.Type == event.Effected {
				e.Effect = &event.Effect{Name: "payment.charge", Target: e.BusinessKey}
			}
			if task%6 == 0 && e.Type == event.Succeeded {
				continue
			}
			if task%13 == 1 { // the plain life of one task
				if j%len(types) > 2 && e.Type != event.Succeeded {
					continue
				}
				e.BusinessKey = fmt.Sprint("p", task)
			}
			b.Events = append(b.Events, e)
		}
		b.Rejects = []event.Reject{{Position: event.Position{Topic: b.Topic, Partition: b.Partition, Offset: b.First, Index: 1}, KafkaTime: noon, Reason: "json", Raw: []byte("{")}}
		for range 1 + i%2 {
			if err := s.InsertBatch(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		e := reject.Entry{Position: b.Rejects[0].Position, KafkaTime: noon, Time: noon, Action: reject.Intended, Attempt: fmt.Sprint("a", i), By: "ada"}
		sent := e
		sent.Action = reject.Sent
		if err := s.LogRejects(t.Context(), []reject.Entry{e, sent}[:1+i%2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveRuleRun(t.Context(), userrule.Run{Rule: "some_rule", Time: noon, Took: time.Second, Found: 3}); err != nil {
		t.Fatal(err)
	}
	var found []finding.Finding
	var changes []finding.Change
	var tasks []history.Pending
	cursor := event.Cursor{{Topic: "task-events"}: 200, {Topic: "task-events", Partition: 1}: 100}
	for i := range 30 {
		f := finding.Finding{ID: fmt.Sprint("f", i), Rule: "repeated_effect", Severity: "critical", Task: "shop.settle", BusinessKey: fmt.Sprint("k", i),
			Effects: 2, FirstSeen: noon, LastSeen: noon.Add(time.Duration(i) * time.Minute), Title: "t", UpdatedAt: noon,
			Fields: map[string]any{"root": map[string]any{"kind": "redelivery", "at": noon}}}
		if i%7 == 0 {
			f.Fields["incident"] = "f4"
		}
		found = append(found, f)
		changes = append(changes, finding.Change{FindingID: f.ID, Time: noon, To: "open"})
		if i%3 == 0 {
			changes = append(changes, finding.Change{FindingID: f.ID, Time: noon.Add(time.Minute), To: "acknowledged", By: "a"})
		}
		if i%4 == 0 {
			changes = append(changes, finding.Change{FindingID: f.ID, Time: noon.Add(time.Hour), To: "resolved", By: "b"})
		}
		tasks = append(tasks, history.Pending{Subject: history.Subject{BusinessKey: f.BusinessKey}, PendingTaskID: fmt.Sprint("t", i),
			Task: "shop.settle", Phase: "started", Since: noon, Due: noon.Add(time.Minute), Open: true})
	}
	changes = append(changes, finding.Change{FindingID: "f4", Time: noon.Add(time.Second), From: "open", To: "open", By: "a", Note: "n", Request: "7c9e"})
	one := silenced(silence.Matchers{BusinessKey: "k1*", Namespace: "*"})
	one.ID = "f4"
	if err := s.insert(t.Context(), "silence_log", "", silenceBlock("add", one, noon, one.By, one.Note)); err != nil {
		t.Fatal(err)
	}
	if err := s.LogConfig(t.Context(), view.ConfigChange{Time: noon, Digest: "d"}); err != nil {
		t.Fatal(err)
	}
	tasks = append(tasks, history.Pending{Subject: history.Subject{TaskID: "t35"}, PendingTaskID: "t35", Task: "shop.settle", Phase: "started", Since: noon, Due: noon, Open: true})
	for range 2 { // a second version of each
		for _, err := range []error{
			s.SaveFindings(t.Context(), found, changes),
			s.SavePending(t.Context(), tasks),
			s.SaveCursor(t.Context(), "rules", cursor),
			s.SaveProgress(t.Context(), []event.Progress{{PartitionID: event.PartitionID{Topic: "task-events"}, Topics: []string{"task-events"},
				Partitions: 2, Next: cursor[event.PartitionID{Topic: "task-events"}]}}),
			s.SaveProofs(t.Context(), []proof.Proof{{PartitionID: event.PartitionID{Topic: "task-events"}, Next: cursor[event.PartitionID{Topic: "task-events"}]}}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range found {
			found[i].Version, found[i].Effects = 1, 3
		}
		for i := range tasks {
			tasks[i].Open = i%5 != 0
		}
		for id := range cursor {
			cursor[id]++
		}
	}
}

// rowsOf runs a statement and gives its rows as text, sorted: few say in which order they come.
func rowsOf(t *testing.T, s *Store, name string, p params) []string {
	t.Helper()
	all := []string{}
	err := s.each(t.Context(), name, p, func(rows driver.Rows) error {
		all = append(all, rowText(t, rows))
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	slices.Sort(all)
	return all
}

// rowText gives the row that is next as text.
func rowText(t *testing.T, rows driver.Rows) string {
	t.Helper()
	var dest []any
	for _, c := range rows.ColumnTypes() {
		dest = append(dest, reflect.New(c.ScanType()).Interface())
	}
	if err := rows.Scan(dest...); err != nil {
		t.Error(err)
	}
	var text []string
	for _, d := range dest {
		text = append(text, fmt.Sprint(reflect.ValueOf(d).Elem().Interface()))
	}
	return strings.Join(text, " | ")
}

// asked are values for the statements' parameters with which they find something of everyday.
var asked = params{
	"topic": "task-events", "partition": 0, "first": 0, "last": 399, "from": 0, "to": 400, "end": 400, "most": 100,
	"since": time.Unix(0, 0), "until": noon.Add(time.Hour), "arrived": noon.Add(time.Hour), "told": noon.Add(time.Hour), "now": noon.Add(24 * time.Hour), "name": "rules",
	"namespaces": []string{"", "", ""}, "business_keys": []string{"k1", "k2", ""}, "task_ids": []string{"", "", "t5"},
	"ids": []string{"f1", "f2", "f3", "f4"}, "id": "f4", "workers": []string{"w0", "w1"}, "namespace": "", "text": "k7",
	"task_id": "t7", "retries": 1, "offset": 100, "index": 1, "tasks": []string{"shop.settle"}, "topics": []string{"task-events"}, "offsets": []int64{100},
	"positions": []string{"task-events:0:100:1"}, "stuck_after": []float64{60}, "limit": 1000,
}

// fits reports whether a value is of a parameter's kind.
func fits(v any, kind string) bool {
	switch v.(type) {
	case time.Time:
		return strings.HasPrefix(kind, "DateTime")
	case []string, []int64, []float64:
		return strings.HasPrefix(kind, "Array")
	}
	return kind != "Bool" && !strings.HasPrefix(kind, "Array") && !strings.HasPrefix(kind, "DateTime")
}

// Each statement says the same of what lies on two servers as of what lies on one.
func TestStatementsAnswerTheSameOnACluster(t *testing.T) {
	one, two := newStore(t), newShards(t)
	everyday(t, one)
	everyday(t, two.Store)
	for _, table := range []string{"events", "changed_keys", "task_keys", "worker_signals", "attempts", "task_minutes"} {
		for i, shard := range two.each {
			if n := number(t, shard, "SELECT count() FROM "+table+"_local"); n == 0 {
				t.Errorf("shard %d holds nothing of %s, and this test proves little", i+1, table)
			}
		}
	}
	for name, st := range one.statements {
		if !regexp.MustCompile(`(?m)^(SELECT|WITH)\b`).MatchString(st.text) || strings.Contains(st.text, "INSERT") {
			continue
		}
		about := []string{"database_engine", "retention", "retention_raised", "server", "settings", "clusters", "tables", "foreign_functions"}
		if st.params["cluster"] != "" || slices.Contains(about, strings.TrimPrefix(name, "store/")) {
			continue // about the servers
		}
		t.Run(name, func(t *testing.T) {
			p := params{}
			for parameter, kind := range st.params {
				p[parameter] = st.example[parameter]
				if v, ok := asked[parameter]; ok && fits(v, kind) {
					p[parameter] = v
				}
				if parameter == "from" && strings.HasPrefix(kind, "DateTime") {
					p[parameter] = noon.Add(-time.Hour)
				}
				if parameter == "to" && strings.HasPrefix(kind, "DateTime") {
					p[parameter] = noon.Add(time.Hour)
				}
			}
			switch name {
			case "web/search_prefix":
				p["text"] = "t1"
			case "store/arrived":
				p["ids"] = []string{"e0-1", "e2-1"}
			case "web/rejects", "web/reject_counts", "store/reject_positions":
				p["states"] = []string{"unknown", "replayed"}
			case "review/share", "review/keys", "review/tasks", "review/effects":
				p["last"], p["task"] = uint64(math.MaxUint64), "shop.settle"
			case "rules/waves", "rules/retries", "rules/runs_by_minute":
				p["namespaces"] = []string{""}
			case "rules/failing":
				p["namespaces"], p["error_types"] = []string{""}, []string{"ConnectionError"}
			case "rules/drifted":
				p["task_ids"] = []string{"t11", "t22", "t33"}
			case "rules/numbers":
				p["emitters"] = []string{"w0", "w1"}
			case "rules/told", "rules/plain", "rules/works", "rules/key_tasks":
				var rows []struct {
					Hash uint64 `ch:"key_hash"`
				}
				if err := one.conn.Select(t.Context(), &rows, "SELECT DISTINCT key_hash FROM events"); err != nil {
					t.Fatal(err)
				}
				var hashes []uint64
				for _, r := range rows {
					hashes = append(hashes, r.Hash)
				}
				p["hashes"] = hashText(hashes)
			case "rules/key_arrivals":
				p["first"], p["last"] = uint64(10237016259631417266), uint64(10237016259631417266) // of k0
			case "rules/run_times":
				p["runs"] = 10
			case "web/findings":
				p["text"], p["states"] = "", []string{"resolved", "acknowledged"}
			}
			want, got := rowsOf(t, one, name, p), rowsOf(t, two.Store, name, p)
			switch name {
			case "rules/any_keyless", "rules/oldest_attempt": // how many rows there are before merges is nobody's business
				count := regexp.MustCompile(`[1-9][0-9]*$`)
				want[0], got[0] = count.ReplaceAllString(want[0], "some"), count.ReplaceAllString(got[0], "some")
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("on one server (-), on two (+):\n%s", diff)
			}
			if len(want) == 0 {
				t.Error("nothing was found, and this test proves nothing")
			}
		})
	}
}

// The tables as they are in production, with paths in Keeper. The server stands in for Keeper, and makes the tables; it
// can neither fill nor alter them.
func TestReplicatedTablesAreMade(t *testing.T) {
	at, err := testserver.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(at[0])
	startServer(t, testserver.Config{Data: t.TempDir(), Native: at[0], XML: "<zookeeper><implementation>testkeeper</implementation></zookeeper>" +
		"<macros><shard>s1</shard><replica>r1</replica></macros>" +
		"<remote_servers><main><shard><replica><host>" + host + "</host><port>" + port + "</port></replica></shard></main></remote_servers>"})
	config := DefaultConfig()
	config.Addresses, config.Cluster = at, "main"
	s, err := Open(config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.layout.onCluster = false // which this server does not know
	if err := s.begin(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	migrations, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a migration may run twice
		for _, m := range migrations {
			for _, statement := range clusterDDL(t, s.layout, m) {
				if strings.Contains(statement, "ALTER TABLE") && strings.Contains(statement, localSuffix) || strings.HasPrefix(statement, "INSERT") { // which take a replica that answers
					continue
				}
				if err := s.execText(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
		}
	}
	var want []string
	for table := range shardedBy {
		want = append(want, table+"_local | /clickhouse/tables/s1/auditor/"+table+"_local | r1")
	}
	slices.Sort(want)
	got := textRows(t, s, "SELECT table, zookeeper_path, replica_name FROM system.replicas WHERE database = 'auditor' ORDER BY table")
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	windows := textRows(t, s, "SELECT name, extract(engine_full, 'replicated_deduplication_window = [0-9]+, replicated_deduplication_window_seconds = [0-9]+') "+
		"FROM system.tables WHERE database = 'auditor' AND name = 'events_local' AND engine = 'ReplicatedReplacingMergeTree'")
	if diff := gocmp.Diff([]string{"events_local | replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800"}, windows); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// held gives what each shard holds of a table.
func (s *shards) held(t *testing.T, table string) []uint64 {
	t.Helper()
	var n []uint64
	for _, one := range s.each {
		n = append(n, number(t, one, "SELECT count() FROM "+table+"_local"))
	}
	return n
}

// A batch that comes again under its token is dropped on each shard, also where only one of them took it the first time.
func TestTokenHoldsOnEachShard(t *testing.T) {
	s := newShards(t)
	b := mixedBatch(200)
	once := func(store *Store) error {
		store.doubts.stored(&event.Batch{Topic: b.Topic, Last: b.First - 1}) // by the token alone
		return store.InsertBatch(t.Context(), b)
	}
	if err := once(s.Store); err != nil {
		t.Fatal(err)
	}
	first := map[string][]uint64{}
	for _, table := range everyTable {
		first[table] = s.held(t, table)
	}
	if n := first["events"]; n[0] == 0 || n[1] == 0 || n[0]+n[1] != 200 {
		t.Fatalf("the shards hold %d events", n)
	}
	for _, through := range []*Store{s.each[1], s.each[0], s.Store} {
		if err := once(through); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range everyTable[:2] {
		if diff := gocmp.Diff(first[table], s.held(t, table)); diff != "" {
			t.Errorf("%s after one call (-), after four (+):\n%s", table, diff)
		}
	}
	for _, table := range everyTable[3:] {
		if diff := gocmp.Diff(first[table], s.held(t, table)); diff != "" {
			t.Errorf("%s, which is derived, after one call (-), after four (+):\n%s", table, diff)
		}
	}
	// The rows of one shard are lost, its tokens too; the other knows its own.
	for _, table := range []string{"events_local", "rejects_local"} {
		if err := s.each[1].conn.Exec(t.Context(), "TRUNCATE TABLE "+table); err != nil {
			t.Fatal(err)
		}
	}
	if err := once(s.Store); err != nil {
		t.Fatal(err)
	}
	for _, table := range everyTable[:2] {
		if diff := gocmp.Diff(first[table], s.held(t, table)); diff != "" {
			t.Errorf("%s before a shard lost it (-), when it came again (+):\n%s", table, diff)
		}
	}
}

// A shard that is away fails an insert, and what decides on what is inserted; when it is back, the batch is whole.
func TestShardThatIsAway(t *testing.T) {
	s := newShards(t)
	b := mixedBatch(200)
	for name, try := range map[string]func() error{
		"a batch was taken": func() error { return s.InsertBatch(t.Context(), b) },
		"what is there was told": func() error {
			_, err := s.Present(t.Context(), b.Topic, b.Partition, b.First, b.Last)
			return err
		},
		"the ledger was told": func() error {
			_, _, err := s.Newest(t.Context(), b.Topic, b.Partition)
			return err
		},
	} {
		s.servers[1].Stop()
		if err := try(); err == nil {
			t.Errorf("%s though a shard is away", name)
		} else if isPermanent(err) {
			t.Errorf("%v is not to be tried again", err)
		}
		s.restart(t)
	}
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Present(t.Context(), b.Topic, b.Partition, b.First, b.Last)
	if err != nil || !stored.Complete || len(stored.Events) != 200 || len(stored.Rejects) != 2 {
		t.Errorf("stored: %t, %d events, %d rejects, %v", stored.Complete, len(stored.Events), len(stored.Rejects), err)
	}
	if n := number(t, s.Store, "SELECT count() FROM events FINAL"); n != 200 {
		t.Errorf("%d events, want 200", n)
	}
}

// What was derived from events is derived again where they lie, and says the same.
func TestRangeThatIsSentAgainIsDerivedAnewOnACluster(t *testing.T) {
	s, b := newShards(t), mixedBatch(200)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	said := contents(t, s.Store)
	attempts := number(t, s.Store, "SELECT uniqExact(tuple(*)) FROM attempts")
	failures := number(t, s.Store, "SELECT uniqExact(tuple(*)) FROM failures")
	for _, table := range everyTable[3:] {
		for _, one := range s.each {
			if err := one.conn.Exec(t.Context(), "TRUNCATE TABLE "+table+"_local"); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.doubts.raise(b.Topic, b.Partition)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	again := contents(t, s.Store)
	if n := number(t, s.Store, "SELECT uniqExact(tuple(*)) FROM attempts"); n != attempts {
		t.Errorf("%d attempts, were %d", n, attempts)
	}
	if n := number(t, s.Store, "SELECT uniqExact(tuple(*)) FROM failures"); n != failures {
		t.Errorf("%d failures, were %d", n, failures)
	}
	// Parts of these lie on other shards than before, where FINAL does not put them together.
	for _, table := range []string{"worker_signals", "keyless", "attempts", "failures"} {
		if again[table] == 0 {
			t.Errorf("%s is empty", table)
		}
		delete(said, table)
		delete(again, table)
	}
	if diff := gocmp.Diff(said, again); diff != "" {
		t.Errorf("contents before (-), after (+):\n%s", diff)
	}
}

func TestRetentionOnACluster(t *testing.T) {
	s := newShards(t)
	for _, days := range []int{30, 0, 400} {
		for _, one := range s.each { // ALTER reaches one server here, ON CLUSTER all
			one.config.RetentionDays = days
			if _, err := one.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			have, err := one.retention(t.Context())
			if err != nil || have["events"] != uint32(days) || have["changed_keys"] != uint32(min(days, 14)) {
				t.Errorf("retention_days %d: %v, %v", days, have, err)
			}
		}
	}
	b := aBatch(anEvent(1))
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Error(err)
	}
}

func TestConfirmedSettlesOnACluster(t *testing.T) {
	if one, many := new(Store).SettleTime(), (&Store{layout: layout{cluster: "main"}}).SettleTime(); one != 0 || many != settleTime {
		t.Errorf("one server settles after %s, a cluster after %s", one, many)
	}
	of := event.PartitionID{Topic: "t"}
	var s settling
	for _, step := range []struct {
		after time.Duration
		now   int64
		want  event.Cursor
	}{
		{0, 10, event.Cursor{}},
		{settleTime - 1, 20, event.Cursor{}},
		{settleTime, 30, event.Cursor{of: 10}},
		{settleTime + 1, 40, event.Cursor{of: 10}},
		{2*settleTime - 1, 50, event.Cursor{of: 20}},
		{10 * settleTime, 60, event.Cursor{of: 50}},
	} {
		if diff := gocmp.Diff(step.want, s.settled(noon.Add(step.after), event.Cursor{of: step.now})); diff != "" {
			t.Errorf("after %s: want (-), got (+):\n%s", step.after, diff)
		}
	}
}
