package main

import (
	"path/filepath"
	"testing"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event/userrule"
	"auditor/queries/querytest"
)

// The rules that the documentation shows are good, and their queries run.
func TestExampleRules(t *testing.T) {
	files, err := filepath.Glob("../../docs/rules/examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	all, err := config.ReadUserRules(files)
	if err != nil {
		t.Fatal(err)
	}
	store := querytest.Store(t)
	for i := range all {
		if _, err := checkRule(t.Context(), store, &all[i]); err != nil {
			t.Error(err)
		}
		if _, err := store.UserRuleRows(t.Context(), &all[i], time.Now().Add(-time.Hour), time.Now()); err != nil {
			t.Error(err)
		}
		if _, err := userrule.NewMaker(all[i]); err != nil {
			t.Error(err)
		}
	}
}
