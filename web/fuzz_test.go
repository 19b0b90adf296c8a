package web

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"auditor/event/finding"
	"auditor/event/reject"
)

func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"/findings?rule=a", "//evil.example", "/\\evil", "https://evil.example", "/%2f/evil", "/\t/evil", "/.//evil", "", "javascript:x", "/#a"} {
		f.Add(seed)
	}
	home := &url.URL{Scheme: "http", Host: "here.example", Path: "/"}
	f.Fuzz(func(t *testing.T, text string) {
		path := localPath(text)
		there, err := home.Parse(path)
		if err != nil || there.Host != home.Host || there.Scheme != home.Scheme || !strings.HasPrefix(path, "/") ||
			strings.HasPrefix(path, "//") || strings.HasPrefix(path, "/\\") || strings.ContainsAny(path, "\r\n\t") {
			t.Errorf("%q leads to %q", text, path)
		}
	})
}

// Whatever a query holds is refused in words, or becomes a filter that the store can take.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"state=open,resolved&severity=info", "since=24h&sort=recent", "since=-1h", "since=292277026596-12-04T15:30:07Z", "state=,", "namespace=", "q=%00%ff", "a;b"} {
		f.Add(seed)
	}
	server, err := New(DefaultConfig(), unused{}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, err := server.filterOf(values, "live")
		if err != nil {
			if p := problemOf(err); p.Status != 400 || p.Message == "" {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		for _, state := range filter.States {
			if state != finding.Open && state != finding.Acknowledged && state != finding.Resolved {
				t.Errorf("%q chooses the state %q", query, state)
			}
		}
		if filter.Limit < 1 {
			t.Errorf("%q has the limit %d", query, filter.Limit)
		}
		setFilters(values)
	})
}

// A cursor of the list of rejects leads back to where it was taken, and nothing else is taken for one.
func FuzzRejectCursor(f *testing.F) {
	for _, seed := range []string{"1.2.3.4.t", "1.2.3.4.t.u", "....", "1.99999999999.3.4.t", "-1.-2.-3.-4.", "9223372036854775807.0.0.0.t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, err := readRejectCursor(text)
		if err != nil || text == "" {
			return
		}
		again := rejectCursorAt(before)
		if second, err := readRejectCursor(again); err != nil || second != before {
			t.Errorf("%q became %q: %v", text, again, err)
		}
	})
}

// Whatever a query of the list of rejects holds is refused in words, or becomes a filter that the store can take.
func FuzzRejectList(f *testing.F) {
	for _, seed := range []string{"state=open,unknown&reason=not_json", "state=waiting&since=1h&until=2026-01-01T00:00:00Z", "partition=-1", "partition=4294967296", "reason=,%00", "cursor=1.2.3.-1.t"} {
		f.Add(seed)
	}
	server, err := New(DefaultConfig(), unused{}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		list, err := server.rejectList(values, "any", 10)
		if err != nil {
			if p := problemOf(err); p.Status != 400 || p.Message == "" {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		for _, state := range list.States {
			if !slices.Contains(reject.States, state) {
				t.Errorf("%q chooses the state %q", query, state)
			}
		}
		if list.Partition != nil && *list.Partition < 0 {
			t.Errorf("%q chooses partition %d", query, *list.Partition)
		}
		setRejectFilters(values)
	})
}

// What a page takes for text can be shown and typed without a loss.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"plain\n\ttext", "\x00", "\u202e", "half \xe2\x82", "\r\n", "\ufffd"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if isText(b) && utf8.Valid(b) && visibleText(string(b)) != string(b) {
			t.Errorf("%q hides something", b)
		}
	})
}
