package main

import (
	"fmt"
	"testing"
	"time"
)

func TestFaultsFollowFromTheSeed(t *testing.T) {
	const length = 50 * time.Second
	text := func(seed uint64) string {
		out := ""
		for _, f := range planFaults(seed, length, false) {
			out += fmt.Sprintln(f.at, f.kind, f.who, f.rng.Uint64())
		}
		return out
	}
	if text(1) != text(1) {
		t.Error("the same seed planned something else")
	}
	if text(1) == text(2) {
		t.Error("another seed planned the same")
	}
}

func TestFaultsAreManyAndOfEveryKind(t *testing.T) {
	const length = 50 * time.Second
	for _, short := range []bool{false, true} {
		kinds := make(map[kind]int)
		faults := planFaults(1, length, short)
		for i, f := range faults {
			kinds[f.kind]++
			if f.at < 0 || f.at > length || i > 0 && f.at < faults[i-1].at {
				t.Errorf("fault %d is at %s", i, f.at)
			}
		}
		if !short && (len(faults) < 75 || len(kinds) != len(often)) {
			t.Errorf("%d faults of %d kinds", len(faults), len(kinds))
		}
		if short && len(kinds) < len(often)-1 {
			t.Errorf("a short trial has %d kinds only: %v", len(kinds), kinds)
		}
	}
}

func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		text        string
		first, last uint64
		bad         bool
	}{
		{text: "7", first: 7, last: 7},
		{text: "1..20", first: 1, last: 20},
		{text: "3..3", first: 3, last: 3},
		{text: "20..1", bad: true},
		{text: "1..", bad: true},
		{text: "-1", bad: true},
		{text: "one", bad: true},
	} {
		first, last, err := parseSeeds(c.text)
		if (err != nil) != c.bad || err == nil && (first != c.first || last != c.last) {
			t.Errorf("%q gives %d to %d, %v", c.text, first, last, err)
		}
	}
	if first, last, err := parseSeeds(""); err != nil || first != last {
		t.Errorf("no seed gives %d to %d, %v", first, last, err)
	}
}
