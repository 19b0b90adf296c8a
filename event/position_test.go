package event_test

import (
	"testing"

	"auditor/event"
)

func TestParsePosition(t *testing.T) {
	for text, want := range map[string]event.Position{
		"task-events:0:42":        {Topic: "task-events", Offset: 42, Index: event.AnyIndex},
		"t:0:7:-1":                {Topic: "t", Offset: 7, Index: event.WholeRecord},
		"a.b_c:7:0:3":             {Topic: "a.b_c", Partition: 7, Index: 3},
		"t:0:9223372036854775807": {Topic: "t", Offset: 1<<63 - 1, Index: event.AnyIndex},
	} {
		if got, err := event.ParsePosition(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "t", "t:0", ":0:1", "t:0:1:2:3", "t:-1:0", "t:0:-1", "t:0:1:-2", "t:-1:0:-1", "t:2147483648:0", "t:0:9223372036854775808", "t:x:0", "t:0:", "t:+1:0"} {
		if p, err := event.ParsePosition(text); err == nil {
			t.Errorf("%q is taken for %+v", text, p)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	for _, seed := range []string{"task-events:0:42:1", "::::", "t:00:01"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := event.ParsePosition(text)
		if err != nil {
			return
		}
		if again, err := event.ParsePosition(event.FormatPosition(p)); err != nil || again != p {
			t.Errorf("%q is %+v, and written %+v (%v)", text, p, again, err)
		}
	})
}
