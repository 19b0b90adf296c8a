package testbroker_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"auditor/embedded/kafka/testbroker"
	"auditor/internal/require"
)

const (
	topic    = "task-events"
	patience = 30 * time.Second
)

func need(t *testing.T) {
	t.Helper()
	if _, err := testbroker.Java(); err != nil {
		require.Missing(t, "java", "apt-get install openjdk-17-jdk-headless")
	}
	if _, err := testbroker.Jars(); err != nil {
		require.Missing(t, "the jars of Apache Kafka", "make testbroker")
	}
}

func start(t *testing.T, c testbroker.Config) *testbroker.Broker {
	t.Helper()
	need(t)
	c.Log = t.Output()
	b, err := testbroker.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(ctx context.Context, c *kgo.Client, value string) error {
	return c.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
}

// end gives how many records the topic, of one partition, has had.
func end(t *testing.T, c *kgo.Client) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, 0)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Offset
}

func TestBrokerKeepsWhatItAcknowledgedWhateverIsDoneToIt(t *testing.T) {
	b := start(t, testbroker.Config{})
	c := client(t, b.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.CreateTopic(ctx, topic, 1, map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTopic(ctx, topic, 1, nil); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("a topic made twice: %v", err)
	}
	addr, pid := b.Addr(), b.PID()
	for i, harm := range []struct {
		name string
		do   func() error
	}{
		{"nothing", func() error { return nil }},
		{"kill", func() error { b.Kill(); return b.Restart(ctx) }},
		{"shutdown", func() error { b.Shutdown(); return b.Restart(ctx) }},
		{"pause", func() error { return errors.Join(b.Pause(), b.Resume()) }},
	} {
		if err := harm.do(); err != nil {
			t.Fatalf("%s: %v", harm.name, err)
		}
		if b.Addr() != addr {
			t.Errorf("after %s: the address is %s, was %s", harm.name, b.Addr(), addr)
		}
		if err := produce(ctx, c, harm.name); err != nil {
			t.Fatalf("after %s: %v", harm.name, err)
		}
		if got := end(t, c); got != int64(i+1) {
			t.Errorf("after %s: %d records, want %d", harm.name, got, i+1)
		}
	}
	if b.PID() == pid {
		t.Error("the process is the same as before the kill")
	}
	if err := b.Restart(ctx); err != nil || b.PID() == 0 {
		t.Errorf("a start of one that runs: %v, process %d", err, b.PID())
	}
	b.Kill()
	if b.PID() != 0 || b.Pause() == nil {
		t.Error("one that is killed is said to run")
	}
}

func TestPausedBrokerAnswersNobody(t *testing.T) {
	b := start(t, testbroker.Config{})
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	c := client(t, b.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused broker answers %v", err)
	}
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		t.Errorf("a resumed broker answers %v", err)
	}
}

func TestListenersAdmitWhomTheyShould(t *testing.T) {
	b := start(t, testbroker.Config{
		Listeners: []testbroker.Security{testbroker.TLS, testbroker.SASL, testbroker.SASLTLS},
		Users:     map[string]string{"alice": "good-word", "bob": "other"},
	})
	pem, err := os.ReadFile(b.CA())
	if err != nil {
		t.Fatal(err)
	}
	trusting := &tls.Config{RootCAs: x509.NewCertPool()}
	if !trusting.RootCAs.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in the authority's file")
	}
	alice, wrong := scram.Auth{User: "alice", Pass: "good-word"}, scram.Auth{User: "alice", Pass: "bad-word"}
	for _, c := range []struct {
		name  string
		at    testbroker.Security
		tls   *tls.Config
		sasl  sasl.Mechanism
		admit bool
	}{
		{"plaintext", testbroker.Plaintext, nil, nil, true},
		{"TLS", testbroker.TLS, trusting, nil, true},
		{"TLS, unknown authority", testbroker.TLS, &tls.Config{}, nil, false},
		{"SCRAM-256", testbroker.SASL, nil, alice.AsSha256Mechanism(), true},
		{"SCRAM-512", testbroker.SASL, nil, alice.AsSha512Mechanism(), true},
		{"PLAIN", testbroker.SASL, nil, plain.Auth{User: "bob", Pass: "other"}.AsMechanism(), true},
		{"PLAIN, wrong password", testbroker.SASL, nil, plain.Auth{User: "bob", Pass: "good-word"}.AsMechanism(), false},
		{"wrong password", testbroker.SASL, nil, wrong.AsSha256Mechanism(), false},
		{"no password", testbroker.SASL, nil, nil, false},
		{"SCRAM over TLS", testbroker.SASLTLS, trusting, alice.AsSha256Mechanism(), true},
		{"wrong password over TLS", testbroker.SASLTLS, trusting, wrong.AsSha512Mechanism(), false},
	} {
		opts := []kgo.Opt{kgo.RequestRetries(0)}
		if c.tls != nil {
			opts = append(opts, kgo.DialTLSConfig(c.tls))
		}
		if c.sasl != nil {
			opts = append(opts, kgo.SASL(c.sasl))
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := client(t, b.AddrOf(c.at), opts...).Ping(ctx)
		cancel()
		if (err == nil) != c.admit {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.Contains(c.name, "wrong password") && !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestDataOutlivesTheBrokerWhereItHasAPlace(t *testing.T) {
	need(t)
	data := t.TempDir()
	for want := range int64(2) {
		b, err := testbroker.Start(t.Context(), testbroker.Config{Data: data, Log: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, b.Addr())
		if want == 0 {
			if err := b.CreateTopic(t.Context(), topic, 1, nil); err != nil {
				t.Error(err)
			}
		}
		if got := end(t, c); got != want {
			t.Errorf("%d records, want %d", got, want)
		}
		if err := produce(t.Context(), c, "kept"); err != nil {
			t.Error(err)
		}
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	need(t)
	for _, c := range []struct {
		name   string
		config testbroker.Config
		jars   string
		want   string
	}{
		{"no users", testbroker.Config{Listeners: []testbroker.Security{testbroker.SASL}}, "", "needs users"},
		{"unknown listener", testbroker.Config{Listeners: []testbroker.Security{"HTTP"}}, "", `listener "HTTP"`},
		{"quote in a password", testbroker.Config{Users: map[string]string{"a": `x"; y`}}, "", "letters, digits"},
		{"bad property", testbroker.Config{Properties: map[string]string{"num.partitions": "many"}}, "", "num.partitions"},
		{"no jars where they are said to be", testbroker.Config{}, t.TempDir(), "AUDITOR_KAFKA_JARS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.jars != "" {
				t.Setenv("AUDITOR_KAFKA_JARS", c.jars)
			}
			t.Setenv("TMPDIR", t.TempDir())
			_, err := testbroker.Start(t.Context(), c.config)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
