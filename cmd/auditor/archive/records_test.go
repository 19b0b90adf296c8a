package archive

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type numbered struct {
	Number int64
	Value  string
}

func all(t *testing.T, text string) []numbered {
	t.Helper()
	var out []numbered
	for r, err := range Records(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, numbered{r.Number, strings.TrimSpace(string(r.Value))})
	}
	return out
}

func TestRecords(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []numbered
	}{
		{"nothing", "", nil},
		{"blank lines only", "\n \r\n\t", nil},
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []numbered{{1, `{"a":1}`}, {2, `{"b":2}`}}},
		{"no newline at the end", "{\"a\":1}\n{\"b\":2}", []numbered{{1, `{"a":1}`}, {2, `{"b":2}`}}},
		{"blank lines keep their numbers", "\n{\"a\":1}\r\n\n{\"b\":2}\n", []numbered{{2, `{"a":1}`}, {4, `{"b":2}`}}},
		{"broken lines are kept", "{\n}\n", []numbered{{1, "{"}, {2, "}"}}},
		{"lines that are arrays", "[1,2]\n\n[3]\n", []numbered{{1, "[1,2]"}, {3, "[3]"}}},
		{"one array on one line", `[{"a":1}, 2,"x"]`, []numbered{{1, `{"a":1}`}, {2, "2"}, {3, `"x"`}}},
		{"one array on many lines", "\n[\n {\"a\":1},\n\n {\"b\":\n2}\n]\n\n", []numbered{{1, `{"a":1}`}, {2, "{\"b\":\n2}"}}},
		{"empty array", "[]\n", nil},
		{"array that breaks off", "[\n1,\n2", []numbered{{1, "1"}, {2, "2"}, {3, "["}}},
		{"array that breaks off after a comma", "[\n1,", []numbered{{1, "1"}, {2, "["}}},
		{"array with a broken element", "[\n1,\n{a}, 3]", []numbered{{1, "1"}, {2, "{a}, 3]"}}},
		{"something after the array", "[\n1]\n{\"a\":2}", []numbered{{1, "1"}, {2, `{"a":2}`}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, all(t, c.text)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLongLinesAreRefused(t *testing.T) {
	var err error
	for _, e := range Records(strings.NewReader("{}\n" + strings.Repeat("x", MaxLine+1))) {
		err = e
	}
	if err != errLongLine {
		t.Errorf("%v, want %v", err, errLongLine)
	}
}

// Whatever a file holds, every byte that is not white space or an array's own is in some record.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{"", "{}\n{}", "[1,\n2]", "[1]\n[2]", "[[1]]", "[\n1,,2]", "[1]]", "]\n[", "[\"\\", "\x00[", " [ ", "[1\n2]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		last, count := int64(0), 0
		for r, err := range Records(bytes.NewReader(data)) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Number <= last {
				t.Fatalf("record %d comes after %d", r.Number, last)
			}
			last = r.Number
			count++
			if len(bytes.TrimSpace(r.Value)) == 0 {
				t.Fatalf("record %d of %q is blank", r.Number, data)
			}
		}
		var elements []json.RawMessage
		if json.Unmarshal(data, &elements) == nil && elements != nil && count != len(elements) {
			t.Fatalf("%d records of an array of %d: %q", count, len(elements), data)
		}
		if count == 0 && len(bytes.TrimSpace(data)) > 0 && elements == nil {
			t.Fatalf("nothing of %q was read", data)
		}
	})
}
