package event

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// likeNames is an object of so many names, which differ only within.
func likeNames(names int) string {
	var all []string
	for i := range names {
		all = append(all, fmt.Sprintf(`"a%05da":1`, i))
	}
	return "{" + strings.Join(all, ",") + "}"
}

var scanned = []struct {
	name, text string
	ok         bool // the scanner vouches for it
}{
	{"empty object", `{}`, true},
	{"blanks", " \t\r\n{ \"a\" : 1 , \"b\" : [ ] } \n", true},
	{"every kind", `{"a":"x","b":1,"c":true,"d":false,"e":null,"f":{"a":{"a":[1,"x",{}]}},"g":[[],[[]]]}`, true},
	{"numbers", `{"a":0,"b":-0,"c":-1.50,"d":1e5,"e":1E+05,"f":0.0e-1,"g":123456789012345678901234567890}`, true},
	{"beyond ASCII", `{"é":"日本語 😀","long enough to fill words é":"é at the end é"}`, true},
	{"same name in another object", `{"a":{"a":1},"b":{"a":1},"c":[{"a":1},{"a":1}]}`, true},
	{"many names", `{"` + strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:;+*/()[]<>=~!?#", ""), `":1,"`) + `":1}`, true},
	{"empty name", `{"":1}`, true},

	{"as many names as are compared", likeNames(maxScanNames), true},
	{"more names", likeNames(maxScanNames + 1), false},
	{"more names within", `{"a":[` + likeNames(maxScanNames+1) + `]}`, false},
	{"escape", `{"a":"\n"}`, false},
	{"escaped name", `{"\u0061":1}`, false},
	{"deep", `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, false},
	{"no object", `[1]`, false},
	{"nothing", ``, false},
	{"name twice", `{"task_id":"a","task_id":"b"}`, false},
	{"name twice, other order", `{"ab":1,"b":1,"ab":1}`, false},
	{"empty name twice", `{"":1,"":1}`, false},
	{"name twice within", `{"a":[{"b":{"c":1,"c":1}}]}`, false},
	{"trailing", `{} {}`, false},
	{"trailing comma", `{"a":1,}`, false},
	{"comma in an array", `{"a":[1,]}`, false},
	{"no colon", `{"a" 1}`, false},
	{"no comma", `{"a":1 "b":1}`, false},
	{"name that is no string", `{a:1}`, false},
	{"leading zero", `{"a":01}`, false},
	{"leading plus", `{"a":+1}`, false},
	{"no digits after the point", `{"a":1.}`, false},
	{"no digits before the point", `{"a":.5}`, false},
	{"no exponent", `{"a":1e}`, false},
	{"minus alone", `{"a":-}`, false},
	{"literal cut off", `{"a":tru}`, false},
	{"literal in capitals", `{"a":True}`, false},
	{"literal that goes on", `{"a":nullx}`, false},
	{"control character", "{\"a\":\"x\x01y\"}", false},
	{"line break", "{\"a\":\"0123456\n\"}", false},
	{"open string", `{"a":"x`, false},
	{"open object", `{"a":1`, false},
	{"open array", `{"a":[1`, false},
	{"bad UTF-8", "{\"a\":\"\xff\"}", false},
	{"cut UTF-8", "{\"a\":\"0123456\xe6\x97\"}", false},
	{"surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", false},
	{"overlong UTF-8", "{\"a\":\"\xc0\x80\"}", false},
	{"bad UTF-8 in a name", "{\"\xff\":1}", false},
	{"another blank", "{\"a\":\v1}", false},
	{"no-break space", "{\"a\":\u00a01}", false},
}

func TestScan(t *testing.T) {
	for _, c := range scanned {
		t.Run(c.name, func(t *testing.T) {
			for pad := range 9 { // strings are read eight bytes at a time
				text := strings.Repeat(" ", pad) + c.text + strings.Repeat(" ", pad)
				if ok := sameAsValidated(t, []byte(text)); ok != c.ok {
					t.Errorf("%q: vouches for it: %v", text, ok)
				}
			}
		})
	}
}

// sameAsValidated reports whether the scanner vouches for raw, and holds it to what the decoder says of it.
func sameAsValidated(t *testing.T, raw []byte) bool {
	t.Helper()
	scanning, validating := scratches.New().(*scratch), scratches.New().(*scratch)
	got, ok := scanning.scan(raw)
	if !ok {
		return false
	}
	want, bad := validating.validate(raw)
	if bad != nil {
		t.Fatalf("the scanner takes %q, the decoder does not: %s", raw, bad.detail)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(member{})); diff != "" {
		t.Fatal(diff)
	}
	return true
}

// FuzzScan holds that the scanner takes nothing that the decoder refuses, and splits what it takes alike.
func FuzzScan(f *testing.F) {
	for _, c := range scanned {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sameAsValidated(t, raw) })
}
