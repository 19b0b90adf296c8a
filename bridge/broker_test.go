package bridge

import (
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	tests := map[string]struct {
		address, name, channel, err string
	}{
		"redis":             {"redis://", "redis://localhost:6379/0", "/0.celeryev", ""},
		"with a database":   {"redis://u:geheim@r:7000/3", "redis://r:7000/3", "/3.celeryev", ""},
		"with TLS":          {"rediss://:geheim@r/0?ssl_cert_reqs=CERT_NONE", "rediss://r:6379/0", "/0.celeryev", ""},
		"a socket":          {"redis+socket:///run/redis.sock?virtual_host=2", "redis+socket:///run/redis.sock?virtual_host=2", "/2.celeryev", ""},
		"RabbitMQ":          {"amqp://u:geheim@q//", "amqp://q:5672/%2F", "", ""},
		"a virtual host":    {"pyamqp://u:geheim@q:7001/shop", "amqp://q:7001/shop", "", ""},
		"RabbitMQ with TLS": {"amqps://u:geheim@q", "amqps://q:5671/%2F", "", ""},

		"no URL":               {"redis://u:ge#heim@r:70/a", "", "", "is no URL"},
		"another":              {"sqs://u:geheim@q", "", "", `not of "sqs"`},
		"nothing":              {"", "", "", "must be a URL"},
		"no number":            {"redis://u:geheim@r/shop", "", "", "the number of a database"},
		"an unknown parameter": {"redis://u:geheim@r/0?timeout=3", "", "", `"timeout" is no parameter`},
		"bad checks":           {"rediss://u:geheim@r/0?ssl_cert_reqs=maybe", "", "", "ssl_cert_reqs must be"},
		"a lacking file":       {"amqps://u:geheim@r/?ssl_ca_certs=/nowhere", "", "", "ssl_ca_certs: open /nowhere"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Open(test.address, Celery{FanoutPrefix: "/{db}."})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "heim") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || s.String() != test.name {
				t.Fatalf("got %v %v", s, err)
			}
			if r, ok := s.(*redisSource); ok && r.channel != test.channel {
				t.Errorf("channel %q", r.channel)
			}
		})
	}
}

func TestChannels(t *testing.T) {
	s, err := Open("redis://r/4", Celery{Exchange: "ev", FanoutPrefix: "{db}:", KeyPrefix: "shop*:"})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.(*redisSource).channel; c != "shop*:4:ev" || literal(c) != `shop\*:4:ev` {
		t.Errorf("channel %q, pattern %q", c, literal(c))
	}
}
