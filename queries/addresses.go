package queries

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// The orders in which addresses are tried.
const (
	InOrder    = "in_order"    // the first that answers
	RoundRobin = "round_robin" // each connection begins with the next
	Random     = "random"
)

// shunTime is how long an address that did not answer is tried after the others.
const shunTime = 30 * time.Second

// addresses chooses which address a connection goes to.
//
// The driver's own way gives each address the whole dial time-out, and the connection no more than that: behind a first
// address that does not answer at all, none is ever reached. Here each gets its share, and one that did not answer goes to
// the end of the line for a while.
type addresses struct {
	order string
	now   func() time.Time

	mu     sync.Mutex
	begun  int
	failed map[string]time.Time
}

func newAddresses(order string) *addresses {
	return &addresses{order: order, now: time.Now, failed: map[string]time.Time{}}
}

// line gives the addresses in the order in which this connection tries them.
func (a *addresses) line(all []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	start := 0
	switch a.order {
	case RoundRobin:
		start = a.begun % len(all)
		a.begun++
	case Random:
		start = rand.IntN(len(all))
	}
	line := append(slices.Clone(all[start:]), all[:start]...)
	now := a.now()
	slices.SortStableFunc(line, func(x, y string) int {
		return a.shunned(x, now) - a.shunned(y, now)
	})
	return line
}

func (a *addresses) shunned(address string, now time.Time) int {
	if at, ok := a.failed[address]; ok && now.Sub(at) < shunTime {
		return 1
	}
	return 0
}

func (a *addresses) tell(address string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, address)
	if err != nil {
		a.failed[address] = a.now()
	}
}

// dial is the driver's DialStrategy.
func (a *addresses) dial(ctx context.Context, _ int, o *clickhouse.Options, dial clickhouse.Dial) (clickhouse.DialResult, error) {
	shared := *o
	shared.DialTimeout = max(o.DialTimeout/time.Duration(len(o.Addr)), 100*time.Millisecond)
	var errs []error
	for _, address := range a.line(o.Addr) {
		share, cancel := context.WithTimeout(ctx, shared.DialTimeout)
		result, err := dial(share, address, &shared)
		cancel()
		a.tell(address, err)
		if err == nil {
			return result, nil
		}
		var request *url.Error
		if errors.As(err, &request) {
			err = request.Err // without the request's address, which holds every parameter
		}
		errs = append(errs, fmt.Errorf("%s: %w%s", address, err, portHint(address, o)))
	}
	return clickhouse.DialResult{}, &unreached{errs}
}

// usualPorts are ClickHouse's own defaults: of the native protocol and of HTTP, without and with TLS.
var usualPorts = map[string]struct {
	protocol  clickhouse.Protocol
	encrypted bool
}{
	"9000": {clickhouse.Native, false}, "9440": {clickhouse.Native, true},
	"8123": {clickhouse.HTTP, false}, "8443": {clickhouse.HTTP, true},
}

// portHint says what the port that was not reached is usually for, where that is not what was tried.
func portHint(address string, o *clickhouse.Options) string {
	_, port, _ := net.SplitHostPort(address)
	usual, known := usualPorts[port]
	if !known || usual.protocol == o.Protocol && usual.encrypted == (o.TLS != nil) {
		return ""
	}
	protocol, with := Native, "without"
	if usual.protocol == clickhouse.HTTP {
		protocol = HTTP
	}
	if usual.encrypted {
		with = "with"
	}
	return fmt.Sprintf(" (%s is usually the port of the protocol %s, %s TLS)", port, protocol, with)
}

// unreached is what each address said, in one line.
type unreached struct{ errs []error }

// Error says it for each.
func (u *unreached) Error() string {
	texts := make([]string, len(u.errs))
	for i, err := range u.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap gives what each said: what kind of error it is follows from all of them.
func (u *unreached) Unwrap() []error { return u.errs }
