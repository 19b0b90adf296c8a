package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A member whose connection breaks while it waits to be let in is a member all the same, and must not stay one.
func TestMemberThatNeverHeardItsAnswerGoes(t *testing.T) {
	const group = "g"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	var s sessions
	s.watch(cluster)
	addr := cluster.ListenAddrs()[0]

	living := newClient(t, addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
	polling, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for polling.Err() == nil {
			living.PollFetches(polling)
		}
	}()
	members := func() int {
		if info := cluster.GroupInfo(group); info != nil && info.State == "Stable" {
			return len(info.Members)
		}
		return 0
	}
	eventually(t, "one member", func() bool { return members() == 1 })

	dying := newClient(t, addr, kgo.MaxVersions(kversion.V1_0_0()))
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 1000, 5000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte{0, 1, 0, 0, 0, 1, 0, byte(len(topic))}
	protocol.Metadata = append(append(protocol.Metadata, topic...), 0, 0, 0, 0)
	join.Protocols = append(join.Protocols, protocol)
	waiting, cut := context.WithCancel(t.Context())
	go func() { _, _ = join.RequestWith(waiting, dying) }()
	eventually(t, "a rebalance", func() bool { return cluster.GroupInfo(group).State == "PreparingRebalance" })
	cut()
	dying.Close()

	eventually(t, "two members", func() bool { return members() == 2 })
	eventually(t, "one member, after the other's session", func() bool {
		if err := s.end(t.Context(), cluster, addr); err != nil {
			t.Fatal(err)
		}
		return members() == 1
	})
	if n := cluster.GroupInfo(group).NumAssigned(); n != 2 {
		t.Errorf("the living member has %d partitions of 2", n)
	}
}

func TestLivingMembersStay(t *testing.T) {
	now := time.Now()
	after := func(d time.Duration) time.Time { return now.Add(d) }
	info := &kfake.GroupInfo{State: "Stable", Epoch: 1, Members: []kfake.GroupMember{{MemberID: "a"}, {MemberID: "b"}}}
	g := &memberships{longest: 10 * time.Second, heard: map[string]time.Time{}}
	for _, step := range []struct {
		at    time.Duration
		say   string // member that is heard then
		state string
		epoch int32
		gone  int
	}{
		{0, "a", "Stable", 1, 0},
		{10 * time.Second, "a", "Stable", 1, 0},
		{12 * time.Second, "a", "Stable", 1, 1},            // b never spoke
		{13 * time.Second, "", "PreparingRebalance", 1, 0}, // who waits to be let in is silent
		{60 * time.Second, "", "PreparingRebalance", 1, 0}, //
		{61 * time.Second, "", "Stable", 2, 0},             // a new generation: everybody gets a whole session
		{70 * time.Second, "b", "Stable", 2, 0},            //
		{73 * time.Second, "b", "Stable", 2, 1},            // a is silent by now
		{90 * time.Second, "a", "Stable", 3, 0},            //
		{100 * time.Second, "unknown", "Stable", 3, 0},     //
		{120 * time.Second, "", "Stable", 3, 2},            //
	} {
		if step.say != "" {
			g.hear(step.say, after(step.at))
		}
		info.State, info.Epoch = step.state, step.epoch
		if gone := g.silent(info, after(step.at)); len(gone) != step.gone {
			t.Errorf("after %s: gone are %v, want %d", step.at, gone, step.gone)
		}
	}
	if len(g.heard) > 2 {
		t.Errorf("members of the past are remembered: %v", g.heard)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
