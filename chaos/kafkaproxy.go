package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaProxy stands between one ingester and the broker, and lets requests meet with mishaps. Where the broker tells where
// it is, the proxy names itself instead, so that every connection leads through it.
type kafkaProxy struct {
	traps
	link
	addr   string // where it listens
	broker string // what it leads to
	late   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	conns    map[net.Conn]bool
	members  map[string]bool // of the group, that the ingester has become since forget
}

func newKafkaProxy(who int, broker string) (*kafkaProxy, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &kafkaProxy{traps: traps{who: who}, addr: addr, broker: broker, conns: make(map[net.Conn]bool), members: make(map[string]bool)}
	return p, p.open()
}

// open accepts connections, until shut.
func (p *kafkaProxy) open() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return nil
}

// shut cuts all connections and refuses new ones, until open.
func (p *kafkaProxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for conn := range p.conns {
		reset(conn)
	}
}

// track notes the connections that shut cuts. It reports false where new ones are refused by now.
func (p *kafkaProxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return p.listener != nil
}

func (p *kafkaProxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		reset(conn)
		delete(p.conns, conn)
	}
}

// asked is a request whose answer is awaited.
type asked struct {
	key     int16
	version int16
	drop    bool // its answer never arrives
}

// serve passes requests and answers between one connection of the ingester and one to the broker, which end together.
func (p *kafkaProxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.broker, time.Second)
	if err != nil {
		reset(client)
		return
	}
	defer p.end(client, server)
	if !p.track(client, server) {
		return
	}
	waiting := make(chan asked, 1000)
	defer close(waiting)
	go func() {
		defer p.end(client, server)
		p.answers(client, server, waiting)
	}()
	p.requests(client, server, waiting)
}

// requests passes requests on until a connection breaks, or has to.
func (p *kafkaProxy) requests(client, server net.Conn, waiting chan<- asked) {
	for {
		frame, err := readFrame(client)
		if err != nil || len(frame) < 12 {
			return
		}
		time.Sleep(p.delay())
		a := asked{key: int16(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))}
		if trap := p.befall(nameOf(a, frame)); trap != nil {
			switch trap.mishap {
			case lostAnswer:
				a.drop = true
			case appliedLate:
				p.late.Go(func() {
					trap.wait()
					p.sendAlone(frame)
				})
				return
			case heldUp:
				trap.wait()
			case cutShort:
				_, _ = server.Write(frame[:len(frame)/2]) // the connection ends either way
				return
			}
		}
		waiting <- a
		if _, err := server.Write(frame); err != nil {
			return
		}
	}
}

// answers passes answers on until a connection breaks, or has to.
func (p *kafkaProxy) answers(client, server net.Conn, waiting <-chan asked) {
	for a := range waiting {
		frame, err := readFrame(server)
		if err != nil || a.drop {
			return
		}
		if frame, err = p.redirect(a, frame); err != nil {
			return
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// sendAlone sends a request over a connection of its own, and waits for its answer.
func (p *kafkaProxy) sendAlone(frame []byte) {
	server, err := net.DialTimeout("tcp", p.broker, time.Second)
	if err != nil {
		return // the broker is away: the request is lost
	}
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := server.Write(frame); err == nil {
		_, _ = readFrame(server)
	}
}

// readFrame reads a request or an answer, the four bytes of its length included.
func readFrame(conn net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 256<<20 {
		return nil, errors.New("no Kafka frame")
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(conn, frame[4:])
	return frame, err
}

// forget gives the members that the ingester has become, and begins anew.
func (p *kafkaProxy) forget() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	members := slices.Collect(maps.Keys(p.members))
	clear(p.members)
	return members
}

const (
	keyMetadata        = 3
	keyOffsetCommit    = 8
	keyFindCoordinator = 10
	keyJoinGroup       = 11
)

// nameOf says what a request is, and of a commit whether it is an intent or a confirmation.
func nameOf(a asked, frame []byte) string {
	name := kmsg.NameForKey(a.key)
	if a.key != keyOffsetCommit {
		return name
	}
	request := kmsg.NewPtrOffsetCommitRequest()
	request.SetVersion(a.version)
	body, ok := afterHeader(frame[12:], request.IsFlexible())
	if !ok || request.ReadFrom(body) != nil {
		return name
	}
	for _, t := range request.Topics {
		for _, part := range t.Partitions {
			if part.Metadata != nil && *part.Metadata != "" {
				return name + " (intent)"
			}
		}
	}
	return name + " (confirmation)"
}

// afterHeader gives what follows the client id, and the tags of a flexible header.
func afterHeader(rest []byte, flexible bool) ([]byte, bool) {
	if len(rest) < 2 {
		return nil, false
	}
	length := max(int(int16(binary.BigEndian.Uint16(rest))), 0)
	if flexible {
		length++ // no tags: one byte
	}
	if len(rest) < 2+length {
		return nil, false
	}
	return rest[2+length:], true
}

// redirect puts the proxy in the broker's place, in the answers that tell where that is. It also notes what member the
// ingester becomes.
func (p *kafkaProxy) redirect(a asked, frame []byte) ([]byte, error) {
	if a.key != keyMetadata && a.key != keyFindCoordinator && a.key != keyJoinGroup {
		return frame, nil
	}
	response := kmsg.ResponseForKey(a.key)
	response.SetVersion(a.version)
	header := 8
	if response.IsFlexible() {
		header++ // no tags
	}
	if len(frame) < header {
		return nil, errors.New("a short answer")
	}
	if err := response.ReadFrom(frame[header:]); err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	host, port, err := p.place()
	if err != nil {
		return nil, err
	}
	switch r := response.(type) {
	case *kmsg.JoinGroupResponse:
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.MemberID != "" {
			p.members[r.MemberID] = true
		}
		return frame, nil
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, port
		}
	case *kmsg.FindCoordinatorResponse:
		if r.Port != 0 {
			r.Host, r.Port = host, port
		}
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = host, port
		}
	}
	frame = response.AppendTo(frame[:header:header])
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame, nil
}

func (p *kafkaProxy) place() (host string, port int32, err error) {
	host, text, err := net.SplitHostPort(p.addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return host, int32(n), err
}
