package ingest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	embedded "auditor/embedded/kafka"

	"auditor/internal/access"
)

// certificate makes a self-signed certificate for the loopback address, and a file that holds it.
func certificate(t *testing.T) (server tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "broker"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestAuthenticates(t *testing.T) {
	cert, ca := certificate(t)
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			c := newCluster(t, 1, kfake.EnableSASL(), kfake.Superuser(mechanism, "auditor", "s3cret"), kfake.Superuser("SCRAM-SHA-256", "shop", "shop"),
				kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
			shop := scram.Auth{User: "shop", Pass: "shop"}
			producer := newProducer(t, c, kgo.SASL(shop.AsSha256Mechanism()), kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})) //nolint:gosec // the producer is not what is tested
			produce(t, producer, 0, "e", "x")
			password := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(password, []byte("s3cret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := testConfig(c)
			cfg.Kafka.TLS = access.TLS{Enabled: true, CAFile: ca}
			cfg.Kafka.SASL = SASL{Mechanism: mechanism, Username: "auditor", PasswordFile: password}
			s := newMemoryStore()
			p := start(t, cfg, s)
			p.reaches(2)
			p.stop()
			checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "x"}})
		})
	}
}

func TestWrongPasswordIsTroubleAndNoSecretIsTold(t *testing.T) {
	c := newCluster(t, 1, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "auditor", "right"))
	cfg := testConfig(c)
	cfg.Kafka.SASL = SASL{Mechanism: "SCRAM-SHA-512", Username: "auditor", Password: "wr0ng-s3cret"}
	p := start(t, cfg, newMemoryStore())
	eventually(t, "it says what is wrong", func() bool { return p.Status().Trouble != "" })
	if trouble := p.Status().Trouble; strings.Contains(trouble, "wr0ng") {
		t.Errorf("the trouble tells the password: %q", trouble)
	}
}

// TestBrokersOfManyVersions speaks each version of fetch whose answer is framed differently.
func TestBrokersOfManyVersions(t *testing.T) {
	for name, v := range map[string]*kversion.Versions{
		"0.11": kversion.V0_11_0(), "1.0": kversion.V1_0_0(), "1.1": kversion.V1_1_0(), "2.1": kversion.V2_1_0(),
		"2.3": kversion.V2_3_0(), "2.8": kversion.V2_8_0(), "3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0(),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, kfake.MaxVersions(v))
			producer := newProducer(t, c, kgo.TransactionalID("shop"))
			for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
				if err := producer.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				produce(t, producer, 0, "e", "x")
				if err := producer.EndTransaction(t.Context(), end); err != nil {
					t.Fatal(err)
				}
			}
			s := newMemoryStore()
			p := start(t, testConfig(c), s)
			p.reaches(9)
			p.stop()
			checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "x", 6: "e", 7: "x"}})
			checkLedger(t, s, 0, 9)
		})
	}
}

// TestEmbeddedBroker reads what the library's own producer, at its defaults, writes to the broker that auditor embeds.
func TestEmbeddedBroker(t *testing.T) {
	b, err := embedded.Start(embedded.Config{Data: t.TempDir(), Topics: []string{topic}, Partitions: 2, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{Addr: kafka.TCP(b.Addr()), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Compression: kafka.Zstd, Transport: transport}
	defer w.Close()
	var messages []kafka.Message
	for range 100 {
		messages = append(messages, kafka.Message{Key: []byte("key"), Value: []byte("ex")}, kafka.Message{Value: []byte("e")})
	}
	if err := w.WriteMessages(context.Background(), messages...); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Kafka.Brokers = []string{b.Addr()}
	cfg.MaxWait = 5 * time.Millisecond
	s := newMemoryStore()
	p := start(t, cfg, s)
	eventually(t, "all is read", func() bool { return s.count() == 300 })
	p.stop()
}
