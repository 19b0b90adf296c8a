package ingest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"auditor/event"
)

// intent is what the commit metadata of a partition says of the batch in flight, whose first offset is the committed one.
// The zero value says that there is none: everything before the committed offset is in the store.
type intent struct {
	last    int64 // last offset of the batch, inclusive
	records int   // how many records it holds
	until   int64 // offset before which the store may hold rows that its ledger does not know of; told only where that is behind last
	open    bool

	// Wider ranges that were sent, refused and divided, of which an attempt may still be under way. Rare.
	doubtful []event.Range
}

// Versions of the metadata. An auditor that knows only the first would not keep what is doubtful apart.
const (
	intentVersion  = "v1"
	doubtfulIntent = "v2"
)

// errIntentVersion is metadata that a newer auditor wrote. What it means is unknown, so nothing may be assumed.
var errIntentVersion = errors.New("the commit metadata was written by a newer version of auditor")

// errIntentForeign is metadata that auditor did not write.
var errIntentForeign = errors.New("the commit metadata was not written by auditor")

// String gives the commit metadata.
func (i intent) String() string {
	if !i.open {
		return ""
	}
	version := intentVersion
	if len(i.doubtful) > 0 {
		version = doubtfulIntent
	}
	s := fmt.Sprintf("%s;last=%d;rows=%d", version, i.last, i.records)
	if i.until > i.last+1 {
		s += fmt.Sprintf(";until=%d", i.until)
	}
	for _, r := range i.doubtful {
		s += fmt.Sprintf(";of=%d-%d", r.First, r.Last)
	}
	return s
}

// parseIntent reads the metadata that was committed beside offset first. Only what String writes is accepted.
func parseIntent(metadata string, first int64) (intent, error) {
	if metadata == "" {
		return intent{}, nil
	}
	version, rest, _ := strings.Cut(metadata, ";")
	strange := errIntentForeign
	if n, ok := strings.CutPrefix(version, "v"); ok && isDigits(n) && version != intentVersion {
		strange = errIntentVersion
	}
	if version != intentVersion && version != doubtfulIntent {
		return intent{}, strange
	}
	in := intent{open: true}
	for field := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(field, "=")
		if !in.set(name, value) {
			return intent{}, strange
		}
	}
	if in.String() != metadata || in.last < first || in.records < 0 {
		return intent{}, strange
	}
	return in, nil
}

// set takes over one field and reports whether it can be one.
func (i *intent) set(name, value string) bool {
	if name == "of" {
		from, to, _ := strings.Cut(value, "-")
		first, err := strconv.ParseInt(from, 10, 64)
		last, also := strconv.ParseInt(to, 10, 64)
		i.doubtful = append(i.doubtful, event.Range{First: first, Last: last})
		return err == nil && also == nil && 0 <= first && first <= last
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch name {
	case "last":
		i.last = n
	case "rows":
		i.records = int(n)
	case "until":
		i.until = n
	}
	return err == nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
