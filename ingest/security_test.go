package ingest

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"auditor/embedded/kafka/testbroker"
	"auditor/internal/access"
)

// through has ingest go in through a listener, as user.
func (r *trial) through(l testbroker.Security, mechanism, password string) {
	b := r.server.(*testbroker.Broker)
	k := &r.config.Kafka
	k.Brokers = []string{b.AddrOf(l)}
	k.TLS, k.SASL = access.TLS{}, SASL{}
	if l == testbroker.TLS || l == testbroker.SASLTLS {
		k.TLS = access.TLS{Enabled: true, CAFile: b.CA()}
	}
	if mechanism != "" {
		k.SASL = SASL{Mechanism: mechanism, Username: user, Password: access.Secret(password)}
	}
}

// grants are what docs/ingest.md says that the auditor's user needs.
func (r *trial) grants() map[string]*kadm.ACLBuilder {
	on := func() *kadm.ACLBuilder { return kadm.NewACLs().Allow(user).ResourcePatternType(kadm.ACLPatternLiteral) }
	return map[string]*kadm.ACLBuilder{
		"the group": on().Groups(r.config.Kafka.Group).Operations(kadm.OpRead),
		"records":   on().Topics(r.topic).Operations(kadm.OpRead, kadm.OpDescribe),
		"configs":   on().Topics(r.topic).Operations(kadm.OpDescribeConfigs),
	}
}

func (r *trial) grant(acl *kadm.ACLBuilder) {
	r.Helper()
	acl.PrefixUserExcept() // User:auditor
	results, err := r.admin.CreateACLs(r.bounded(), acl)
	r.must(err)
	for _, result := range results {
		r.must(result.Err)
	}
}

func (r *trial) grantAll() {
	r.Helper()
	for _, acl := range r.grants() {
		r.grant(acl)
	}
}

// TestServersAdmit goes in through every listener, with every mechanism, and no more rights than docs/ingest.md lists.
func TestServersAdmit(t *testing.T) {
	onApache(t, 1, nil, func(r *trial) {
		r.grantAll()
		records := int64(0)
		for _, way := range []struct {
			at        testbroker.Security
			mechanism string
		}{
			{testbroker.TLS, ""},
			{testbroker.SASL, "PLAIN"}, {testbroker.SASL, "SCRAM-SHA-256"}, {testbroker.SASL, "SCRAM-SHA-512"},
			{testbroker.SASLTLS, "PLAIN"}, {testbroker.SASLTLS, "SCRAM-SHA-256"}, {testbroker.SASLTLS, "SCRAM-SHA-512"},
		} {
			r.through(way.at, way.mechanism, password)
			r.produce(0, "e", "x")
			records += 2
			log, lines := recordingLogger()
			i := r.wire(r.store, letters{})
			i.log = log
			p := r.run(i)
			p.reaches(records)
			p.stop()
			if n := lines("ingest may not read a topic's cleanup policy"); n != 0 {
				r.Errorf("%s %s: the cleanup policy is not told", way.at, way.mechanism)
			}
		}
		r.checkExact()
	})
}

// TestServersRefuse tries what a wrong configuration leads to. Each is said so that it can be told from the others, and none
// tells the password.
func TestServersRefuse(t *testing.T) {
	_, unknownCA := certificate(t)
	onApache(t, 1, nil, func(r *trial) {
		r.grantAll()
		for _, test := range []struct {
			name   string
			change func()
			want   string
		}{
			{"wrong password, SCRAM", func() { r.through(testbroker.SASL, "SCRAM-SHA-512", "wr0ng") }, "SASL Authentication Failed"},
			{"wrong password, PLAIN", func() { r.through(testbroker.SASLTLS, "PLAIN", "wr0ng") }, "SASL Authentication Failed"},
			{"certificate of an unknown authority", func() {
				r.through(testbroker.TLS, "", "")
				r.config.Kafka.TLS.CAFile = unknownCA
			}, "certificate is refused: x509: certificate signed by unknown authority"},
			{"certificate of another host", func() {
				r.through(testbroker.TLS, "", "")
				r.config.Kafka.TLS.ServerName = "kafka.example"
			}, "certificate is refused: x509: certificate is valid for localhost, not kafka.example"},
			{"no password where one is asked for", func() { r.through(testbroker.SASL, "", "") }, "kafka.sasl"},
			{"a password where none is asked for", func() { r.through(testbroker.Plaintext, "PLAIN", password) }, "Illegal SASL State"},
			{"no TLS where it is spoken", func() {
				r.through(testbroker.TLS, "", "")
				r.config.Kafka.TLS = access.TLS{}
			}, "kafka.tls"},
			{"TLS where it is not spoken", func() {
				r.through(testbroker.Plaintext, "", "")
				r.config.Kafka.TLS = access.TLS{Enabled: true}
			}, "kafka.tls"},
		} {
			r.Run(test.name, func(t *testing.T) {
				test.change()
				i, err := New(r.config, r.store, letters{}, testLogger(t), newRegistry())
				if err != nil {
					t.Fatal(err)
				}
				p := run(t, i)
				eventually(t, "it says what is wrong", func() bool { return p.Status().Trouble != "" })
				trouble := p.Status().Trouble
				if !strings.Contains(trouble, test.want) || strings.Contains(trouble, "wr0ng") || strings.Contains(trouble, password) {
					t.Errorf("it says %q", trouble)
				}
				p.stop()
			})
		}
	})
}

// TestServersHeal mends on the server's side what kept a process out, which goes on by itself.
func TestServersHeal(t *testing.T) {
	onApache(t, 1, nil, func(r *trial) {
		r.produce(0, "e", "x")
		r.through(testbroker.SASL, "SCRAM-SHA-256", "n3w-s3cret")
		p := r.start()
		eventually(r, "the password is refused", func() bool { return strings.Contains(p.Status().Trouble, "SASL Authentication Failed") })
		_, err := r.admin.AlterUserSCRAMs(r.bounded(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "n3w-s3cret"}})
		r.must(err)
		defer func() {
			_, err := r.admin.AlterUserSCRAMs(r.bounded(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: password}})
			r.must(err)
		}()
		eventually(r, "the topic is hidden", func() bool { return strings.Contains(p.Status().Trouble, "Topic Authorization Failed") })
		r.grant(r.grants()["records"])
		eventually(r, "the group is closed", func() bool { return strings.Contains(p.Status().Trouble, "Group Authorization Failed") })
		r.grant(r.grants()["the group"])
		p.reaches(2) // without the right to read the topic's configs
		eventually(r, "the trouble is over", func() bool { return p.Status().Trouble == "" })
		p.stop()
		r.checkExact()
	})
}
