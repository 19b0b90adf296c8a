package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"auditor/event"
)

// The first line of a key's page speaks of all its runs, of which the page lists the first two hundred only.
func TestKeySentenceCountsAllRuns(t *testing.T) {
	store := &fake{}
	for i := range 250 {
		e := event.Event{Task: "cart.check_out", BusinessKey: "cart:7", TaskID: fmt.Sprint("t", i), Worker: fmt.Sprint("w", i%3),
			Type: event.Started, Retries: event.Unknown, Time: noon.Add(time.Duration(i) * time.Minute)}
		e.Offset, e.ID = int64(2*i), fmt.Sprint("s", i)
		store.events = append(store.events, e)
		if i == 10 || i > 247 {
			e.Type, e.Effect, e.Time = event.Effected, &event.Effect{Name: "stock.reserve"}, e.Time.Add(time.Second)
			e.Offset, e.ID = int64(2*i+1), fmt.Sprint("e", i)
			store.events = append(store.events, e)
		}
	}
	answer := call(t, newServer(t, store), http.MethodGet, "/keys?key=cart:7", "")
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	for _, want := range []string{"250 runs on 3 workers", "2 effects beyond the first"} {
		if !strings.Contains(textOf(t, answer.body, "main"), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
