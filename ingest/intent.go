package ingest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// intent is what the commit metadata of a partition says of the batch in flight, whose first offset is the committed one.
// The zero value says that there is none: everything before the committed offset is in the store.
type intent struct {
	last    int64 // last offset of the batch, inclusive
	records int   // how many records it holds
	until   int64 // offset before which the store may hold rows that its ledger does not know of; told only where that is behind last
	open    bool
}

const intentVersion = "v1"

// errIntentVersion is metadata that a newer auditor wrote. What it means is unknown, so nothing may be assumed.
var errIntentVersion = errors.New("the commit metadata was written by a newer version of auditor")

// errIntentForeign is metadata that auditor did not write.
var errIntentForeign = errors.New("the commit metadata was not written by auditor")

// String gives the commit metadata.
func (i intent) String() string {
	if !i.open {
		return ""
	}
	s := fmt.Sprintf("%s;last=%d;rows=%d", intentVersion, i.last, i.records)
	if i.until > i.last+1 {
		s += fmt.Sprintf(";until=%d", i.until)
	}
	return s
}

// parseIntent reads the metadata that was committed beside offset first. Only what String writes is accepted.
func parseIntent(metadata string, first int64) (intent, error) {
	if metadata == "" {
		return intent{}, nil
	}
	version, rest, _ := strings.Cut(metadata, ";")
	if version != intentVersion {
		if n, ok := strings.CutPrefix(version, "v"); ok && isDigits(n) {
			return intent{}, errIntentVersion
		}
		return intent{}, errIntentForeign
	}
	in := intent{open: true}
	for field := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
			return intent{}, errIntentForeign
		case name == "last":
			in.last = n
		case name == "rows":
			in.records = int(n)
		case name == "until":
			in.until = n
		}
	}
	if in.String() != metadata || in.last < first || in.records < 0 {
		return intent{}, errIntentForeign
	}
	return in, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
