package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const sessionsEvery = time.Second

// sessions sees to it that every member of a consumer group has a session that ends. kfake begins one when it has answered
// a member's join; of a member whose connection broke while it waited for that answer it would keep the partitions for
// ever, and nobody would read them.
type sessions struct {
	mu     sync.Mutex
	groups map[string]*memberships
}

// memberships is what is known of a group's members.
type memberships struct {
	longest time.Duration        // session time-out that any member ever asked for
	heard   map[string]time.Time // member id to when it was last heard of
	epoch   int32                // generation that is stable
	since   time.Time            // when it was first seen to be; zero while none is
}

// watch notes what the members of groups ask for.
func (s *sessions) watch(cluster *kfake.Cluster) {
	s.groups = make(map[string]*memberships)
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetCommit} {
		cluster.ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
			s.hear(request, time.Now())
			return nil, nil, false
		})
	}
}

func (s *sessions) hear(request kmsg.Request, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := request.(type) {
	case *kmsg.JoinGroupRequest:
		g := s.groups[r.Group]
		if g == nil {
			g = &memberships{heard: make(map[string]time.Time)}
			s.groups[r.Group] = g
		}
		g.longest = max(g.longest, time.Duration(r.SessionTimeoutMillis)*time.Millisecond)
		g.hear(r.MemberID, now)
	case *kmsg.SyncGroupRequest:
		s.groups[r.Group].hear(r.MemberID, now)
	case *kmsg.HeartbeatRequest:
		s.groups[r.Group].hear(r.MemberID, now)
	case *kmsg.OffsetCommitRequest:
		s.groups[r.Group].hear(r.MemberID, now)
	}
}

// hear notes a sign of life. A nil group is one that nobody has joined since the broker was started.
func (g *memberships) hear(member string, now time.Time) {
	if g != nil && member != "" {
		g.heard[member] = now
	}
}

// silent lists the members that must be gone: the group has been stable for longer than any session, and they have not
// said a word meanwhile.
func (g *memberships) silent(info *kfake.GroupInfo, now time.Time) (gone []string) {
	switch {
	case info == nil || info.State != "Stable":
		g.since = time.Time{}
		return nil
	case g.since.IsZero() || g.epoch != info.Epoch:
		g.epoch, g.since = info.Epoch, now
	}
	known := make(map[string]time.Time)
	for _, m := range info.Members {
		last := g.since
		if heard, ok := g.heard[m.MemberID]; ok {
			known[m.MemberID] = heard
			if heard.After(last) {
				last = heard
			}
		}
		if now.Sub(last) > g.longest+sessionsEvery {
			gone = append(gone, m.MemberID)
		}
	}
	g.heard = known
	return gone
}

// end ends the sessions of the members that must be gone.
func (s *sessions) end(ctx context.Context, cluster *kfake.Cluster, addr string) error {
	s.mu.Lock()
	groups := make(map[string]*memberships, len(s.groups))
	for name, g := range s.groups {
		groups[name] = g
	}
	s.mu.Unlock()
	var errs []error
	for name, g := range groups {
		info := cluster.GroupInfo(name) // asks the loop that calls hear
		s.mu.Lock()
		gone := g.silent(info, time.Now())
		s.mu.Unlock()
		if len(gone) > 0 {
			errs = append(errs, leave(ctx, addr, name, gone))
		}
	}
	return errors.Join(errs...)
}

// leave lets members leave a group.
func leave(ctx context.Context, addr, group string, members []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = group
	for _, id := range members {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		request.Members = append(request.Members, m)
	}
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	response, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("end the sessions of group %q: %w", group, err)
	}
	return nil
}
