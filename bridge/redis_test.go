package bridge

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A server that no longer answers, while the connection stands, is given up.
func TestASilentServerIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go subscribeAndFallSilent(c)
		}
	}()
	s, err := Open("redis://"+l.Addr().String(), Celery{FanoutPrefix: "/{db}."})
	if err != nil {
		t.Fatal(err)
	}
	s.(*redisSource).ping = 10 * time.Millisecond
	was := false
	err = s.Read(t.Context(), func() { was = true }, func(Message) {})
	if !was || err == nil || !strings.Contains(err.Error(), "no sign of life") {
		t.Errorf("connected: %v; %v", was, err)
	}
}

// subscribeAndFallSilent speaks as much of Redis' protocol as it takes to subscribe.
func subscribeAndFallSilent(c net.Conn) {
	defer c.Close()
	subscribed := false
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch word := strings.ToLower(lines.Text()); {
		case strings.HasPrefix(word, "*"), strings.HasPrefix(word, "$"), strings.HasPrefix(word, "/"):
		case word == "subscribe", word == "psubscribe":
			subscribed = true
			fmt.Fprintf(c, "*3\r\n$%d\r\n%s\r\n$1\r\nx\r\n:1\r\n", len(word), word)
		case word == "ping" && !subscribed:
			fmt.Fprint(c, "+PONG\r\n")
		case word == "hello":
			fmt.Fprint(c, "-ERR unknown command\r\n")
		}
	}
}
