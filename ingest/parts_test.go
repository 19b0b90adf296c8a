package ingest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"

	"auditor/internal/access"

	"auditor/event"
)

func TestConfigIsChecked(t *testing.T) {
	good := DefaultConfig()
	good.Kafka.Brokers = []string{"kafka:9092"}
	if err := errors.Join(good.Validate(), good.Kafka.Validate()); err != nil {
		t.Fatalf("the default: %v", err)
	}
	for _, test := range []struct {
		field string
		spoil func(*Config)
	}{
		{"max_rows", func(c *Config) { c.MaxRows = 0 }},
		{"max_bytes", func(c *Config) { c.MaxBytes = 1000 }},
		{"max_wait", func(c *Config) { c.MaxWait = 0 }},
		{"memory", func(c *Config) { c.Memory = c.MaxBytes }},
		{"session_timeout", func(c *Config) { c.SessionTimeout, c.RebalanceTimeout = 31*time.Minute, time.Hour }},
		{"rebalance_timeout", func(c *Config) { c.RebalanceTimeout = c.SessionTimeout - 1 }},
		{"insert_timeout", func(c *Config) { c.InsertTimeout = c.SessionTimeout }},
		{"insert_timeout", func(c *Config) { c.InsertTimeout = 0 }},
		{"brokers", func(c *Config) { c.Kafka.Brokers = nil }},
		{"brokers", func(c *Config) { c.Kafka.Brokers = []string{"kafka"} }},
		{"topics", func(c *Config) { c.Kafka.Topics = nil }},
		{"topics", func(c *Config) { c.Kafka.Topics = []string{"a b"} }},
		{"topics", func(c *Config) { c.Kafka.Topics = []string{".."} }},
		{"topics", func(c *Config) { c.Kafka.Topics = []string{"a", "a"} }},
		{"group", func(c *Config) { c.Kafka.Group = "" }},
		{"tls.enabled", func(c *Config) { c.Kafka.TLS.CAFile = "ca.pem" }},
		{"tls.cert_file", func(c *Config) { c.Kafka.TLS = access.TLS{Enabled: true, KeyFile: "key.pem"} }},
		{"sasl.mechanism", func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "GSSAPI", Username: "u", Password: "p"} }},
		{"sasl.mechanism", func(c *Config) { c.Kafka.SASL = SASL{Username: "u"} }},
		{"sasl.username", func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "PLAIN", Password: "p"} }},
		{"sasl.password", func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "PLAIN", Username: "u"} }},
		{"sasl.password", func(c *Config) {
			c.Kafka.SASL = SASL{Mechanism: "PLAIN", Username: "u", Password: "p", PasswordFile: "f"}
		}},
	} {
		c := good
		test.spoil(&c)
		err := errors.Join(c.Kafka.Validate(), c.Validate())
		if err == nil || !strings.HasPrefix(err.Error(), test.field+": must ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v", test.field, err)
		}
		if _, err := New(c, nil, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: New takes it", test.field)
		}
	}
	for field, spoil := range map[string]func(*Kafka){
		"tls.ca_file":        func(k *Kafka) { k.TLS = access.TLS{Enabled: true, CAFile: "/nowhere"} },
		"tls.cert_file":      func(k *Kafka) { k.TLS = access.TLS{Enabled: true, CertFile: "/nowhere", KeyFile: "/nowhere"} },
		"sasl.password_file": func(k *Kafka) { k.SASL = SASL{Mechanism: "PLAIN", Username: "u", PasswordFile: "/nowhere"} },
	} {
		c := good
		spoil(&c.Kafka)
		if _, err := New(c, nil, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil || !strings.HasPrefix(err.Error(), "kafka."+field+": ") {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
}

func TestSecretIsHidden(t *testing.T) {
	s := SASL{Mechanism: "PLAIN", Username: "u", Password: "s3cret"}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "sasl", s, "password", s.Password)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "sasl", s, "password", s.Password)
	fmt.Fprintf(&out, "%v %+v %#v %s %q %x", s, s, s, s.Password, s.Password, s.Password)
	if strings.Contains(out.String(), "s3cret") || strings.Contains(out.String(), fmt.Sprintf("%x", "s3cret")) {
		t.Errorf("the password shows in %s", &out)
	}
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, footprint{})
		var order []string
		take := func(ctx context.Context, name string, n int) {
			if b.take(ctx, n) == nil {
				order = append(order, name)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		take(ctx, "first", 8)
		go take(ctx, "large", 9)
		synctest.Wait()
		go take(t.Context(), "small", 1)
		synctest.Wait() // there would be room for it, were it not behind the large one
		if want := []string{"first"}; !slices.Equal(order, want) {
			t.Fatalf("served %q, want %q", order, want)
		}
		cancel()
		synctest.Wait()
		if want := []string{"first", "small"}; !slices.Equal(order, want) {
			t.Fatalf("after the large one gave up: served %q, want %q", order, want)
		}
		b.give(8)
		b.give(-20) // it was more than was thought
		go take(t.Context(), "last", 10)
		synctest.Wait()
		b.give(20)
		synctest.Wait()
		if order = order[2:]; len(order) != 0 {
			t.Fatalf("served %q while too little was free", order)
		}
		b.give(1)
		synctest.Wait()
		if want := []string{"last"}; !slices.Equal(order, want) {
			t.Fatalf("served %q, want %q", order, want)
		}
	})
}

func TestTroublesAreSaidOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "error" || a.Key == "side" {
			return slog.Attr{}
		}
		return a
	}}))
	tr := newTroubles(log, "kafka")
	refused := func(port int) error { return &net.OpError{Op: "dial", Err: fmt.Errorf("port %d refuses", port)} }
	tr.begin(1, refused(1000))
	tr.begin(2, refused(1001))
	tr.begin(1, refused(1002))
	if got := tr.String(); got != "kafka: not reachable" {
		t.Errorf("the trouble is %q", got)
	}
	tr.begin(1, kafka.LeaderNotAvailable) // another kind
	tr.end(2)
	tr.begin(1, kafka.LeaderNotAvailable)
	tr.end(1)
	tr.end(1)
	if got := tr.String(); got != "" {
		t.Errorf("the trouble is %q after its end", got)
	}
	want := `msg="ingest waits and retries"
msg="ingest waits and retries"
msg="ingest goes on"
`
	if out.String() != want {
		t.Errorf("log:\n%swant:\n%s", &out, want)
	}
}

func TestTroubleIsNamedByKind(t *testing.T) {
	for want, errs := range map[string][]error{
		"":              {nil},
		"not reachable": {&net.OpError{Op: "read", Err: errors.New("reset")}, io.EOF, fmt.Errorf("fetch: %w", io.ErrUnexpectedEOF), net.ErrClosed},
		"the broker closes each connection at once: it is not up yet, or kafka.tls or kafka.sasl are not as it wants them": {
			hungUp{io.EOF}, fmt.Errorf("list partitions: %w", hungUp{io.ErrUnexpectedEOF})},
		"the broker's certificate is refused: x509: unknown": {&tls.CertificateVerificationError{Err: errors.New("x509: unknown")}},
		"no answer in time":    {context.DeadlineExceeded, fmt.Errorf("commit: %w", context.DeadlineExceeded)},
		"Leader Not Available": {fmt.Errorf("fetch: %w", kafka.LeaderNotAvailable)},
		"query # took # s":     {errors.New("query 17 took 1.5 s"), errors.New("query 18 took 22 s")},
	} {
		for _, err := range errs {
			if got := trouble(err); got != want {
				t.Errorf("%v is %q, want %q", err, got, want)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	c := newCluster(t, 2)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e", "ex", "x")
	produce(t, producer, 1, "ee")
	r := prometheus.NewRegistry()
	s := newMemoryStore()
	h := &hooked{Store: s}
	i, err := New(testConfig(c), h, letters{}, testLogger(t), r)
	if err != nil {
		t.Fatal(err)
	}
	p := run(t, i)
	eventually(t, "all is read", func() bool {
		st := p.Status()
		return len(st.Partitions) == 2 && st.Partitions[0].Next == 3 && st.Partitions[1].Next == 1
	})
	want := `
# HELP auditor_ingest_assigned 1 while this process is in the consumer group and knows its partitions.
# TYPE auditor_ingest_assigned gauge
auditor_ingest_assigned 1
# HELP auditor_ingest_events_total Events stored.
# TYPE auditor_ingest_events_total counter
auditor_ingest_events_total{topic="task-events"} 4
# HELP auditor_ingest_lag Records of a partition that are not yet in the store.
# TYPE auditor_ingest_lag gauge
auditor_ingest_lag{partition="0",topic="task-events"} 0
auditor_ingest_lag{partition="1",topic="task-events"} 0
# HELP auditor_ingest_lost_offsets_total Offsets that retention deleted before they were read.
# TYPE auditor_ingest_lost_offsets_total counter
auditor_ingest_lost_offsets_total{topic="task-events"} 0
# HELP auditor_ingest_next_offset Next offset of a partition to read.
# TYPE auditor_ingest_next_offset gauge
auditor_ingest_next_offset{partition="0",topic="task-events"} 3
auditor_ingest_next_offset{partition="1",topic="task-events"} 1
# HELP auditor_ingest_records_total Kafka records stored.
# TYPE auditor_ingest_records_total counter
auditor_ingest_records_total{topic="task-events"} 4
# HELP auditor_ingest_rejects_total Records or elements that could not be read as an event, stored with their bytes.
# TYPE auditor_ingest_rejects_total counter
`
	for _, reason := range event.Reasons { // each is there from the start, so that its rate is too
		n := 0
		if reason == event.ReasonNotJSON {
			n = 2
		}
		want += fmt.Sprintf("auditor_ingest_rejects_total{reason=%q,topic=\"task-events\"} %d\n", reason, n)
	}
	names := []string{"assigned", "events_total", "lag", "lost_offsets_total", "next_offset", "records_total", "rejects_total"}
	for i := range names {
		names[i] = "auditor_ingest_" + names[i]
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	p.stop()
	if got, err := testutil.GatherAndCount(r, "auditor_ingest_lag"); err != nil || got != 0 {
		t.Errorf("after the end %d partitions have a lag (error %v), want none", got, err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("the metrics break the rules of Prometheus: %v, error %v", problems, err)
	}
}
