package main

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/cmd/auditor/shop"
	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/event/finding"
	"auditor/rules"
)

// TestShopsTruth lets the rules judge a minute of the shop, and compares with what the shop knows of itself: each of its
// troubles is found, with the right cause, and nothing is found on a healthy key.
func TestShopsTruth(t *testing.T) {
	chtest.Library(t)
	opening := time.Now().Add(-time.Hour).UTC()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := shop.New(seed, opening, fmt.Sprint("t", seed))
			asOf := opening.Add(time.Minute)
			found := judgeShop(t, s, asOf)
			for _, trouble := range s.Truth().Troubles() {
				if slices.Contains(rules.Names, trouble.Rule) && !trouble.At.After(asOf) && !slices.ContainsFunc(found, shows(trouble)) {
					t.Errorf("not found: %+v", trouble)
				}
			}
			for _, f := range found {
				if !explained(s.Truth(), f) {
					t.Errorf("found on what is healthy: %s %s %s", f.Rule, f.Cause, f.Title)
				}
			}
		})
	}
}

// judgeShop gives what is found of a shop's events up to a moment.
func judgeShop(t *testing.T, s *shop.Shop, asOf time.Time) []finding.Finding {
	t.Helper()
	var file bytes.Buffer
	for e := s.Next(); !e.Time.After(asOf); e = s.Next() {
		file.Write(e.AppendJSON(nil))
		file.WriteByte('\n')
	}
	c := config.Default()
	demoDefaults(&c)
	store, err := openScratch(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	decoder, err := event.NewDecoder(c.Decoder())
	if err != nil {
		t.Fatal(err)
	}
	var warnings bytes.Buffer
	in := &intake{store: store.store, decoder: decoder, warn: &warnings, kafkaTime: time.Now()}
	if err := in.readFiles(t.Context(), []string{"-"}, &file); err != nil {
		t.Fatal(err)
	}
	if in.events < 5000 || in.rejects > 0 {
		t.Fatalf("%d events read and %d rejected: %s", in.events, in.rejects, warnings.String())
	}
	found, err := judge(t.Context(), c, store.store, asOf)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// shows reports whether a finding is about the trouble; one about a task as a whole has no key.
func shows(trouble shop.Trouble) func(finding.Finding) bool {
	return func(f finding.Finding) bool {
		return f.Rule == trouble.Rule && f.Cause == trouble.Cause && f.Task == trouble.Task && (f.BusinessKey == "" || f.BusinessKey == trouble.BusinessKey)
	}
}

// explained reports whether the truth knows of a reason for f.
func explained(truth *shop.Truth, f finding.Finding) bool {
	if f.BusinessKey != "" {
		return !truth.Healthy(f.BusinessKey)
	}
	return slices.ContainsFunc(truth.Troubles(), func(trouble shop.Trouble) bool { return shows(trouble)(f) })
}
