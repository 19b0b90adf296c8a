package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An old answer is given at once while it is found anew, a much older one is waited for, and an error leaves the old one.
func TestCacheServesWhileItFindsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Minute)
		found, fails := 0, false
		load := func(ctx context.Context) (int, error) {
			time.Sleep(5 * time.Second)
			if fails {
				return 0, errors.New("away")
			}
			found++
			return found, nil
		}
		ask := func(want int, wait time.Duration) {
			t.Helper()
			begun := time.Now()
			got, err := askLongest(t.Context(), c, "key", time.Minute, 10*time.Minute, load)
			if took := time.Since(begun); got != want || err != nil || took != wait {
				t.Errorf("%d after %s, %v; want %d after %s", got, took, err, want, wait)
			}
		}
		ask(1, 5*time.Second) // there is none
		ask(1, 0)             // fresh
		time.Sleep(2 * time.Minute)
		ask(1, 0) // old, and found anew
		ask(1, 0) // only once
		time.Sleep(6 * time.Second)
		ask(2, 0)
		fails = true
		time.Sleep(2 * time.Minute)
		ask(2, 0)
		time.Sleep(6 * time.Second)
		fails = false
		ask(2, 0) // what failed is tried again
		time.Sleep(6 * time.Second)
		ask(3, 0)
		time.Sleep(time.Hour)
		ask(4, 5*time.Second)
		if err := c.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
