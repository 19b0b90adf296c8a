package shop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"auditor/event"
)

func TestPlayKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		told, late := 0, 0
		err := Play(ctx, New(1, time.Now(), "t"), func(_ context.Context, e event.Event) error {
			told++
			if ctx.Err() != nil {
				late++
			} else if off := time.Since(e.Time); off < 0 || off > time.Microsecond {
				t.Fatalf("%s of %s is told %s off its time", e.ID, e.Time, off)
			}
			return nil
		})
		if err != nil || told < 1000 || late == 0 {
			t.Errorf("told %d events in 30 s, %d of them at the end: %v", told, late, err)
		}
	})
}

func TestPlayEndsWithItsListener(t *testing.T) {
	deaf := errors.New("deaf")
	err := Play(t.Context(), New(1, time.Now().Add(-time.Hour), "t"), func(context.Context, event.Event) error { return deaf })
	if !errors.Is(err, deaf) {
		t.Errorf("%v, want %v", err, deaf)
	}
}
