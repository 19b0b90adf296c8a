package pattern

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "ab", false}, {"a.b", "aXb", false}, {"*", "", true}, {"*", "anything\n", true},
		{"mail.*", "mail.send", true}, {"mail.*", "mail.", true}, {"mail.*", "email.send", false}, {"*.send", "mail.send", true}, {"*.send", "mail.send.x", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "axxbxxc", true}, {"a*b*c", "acb", false}, {"**", "x", true}, {"*a*", "bab", true}, {"*ab*ab", "xabab", true}, {"*ab*ab", "xab", false},
		{"[a]?+(", "[a]?+(", true}, {"ключ*", "ключ:1", true},
	} {
		if got := Fits(c.pattern, c.text); got != c.want {
			t.Errorf("%q fits %q: %t", c.text, c.pattern, got)
		}
	}
}

func TestMorePreciseComesLater(t *testing.T) {
	patterns := []string{"mail.send", "*", "mail.*", "*.send", "mail.send*", "m*"}
	slices.SortFunc(patterns, Compare)
	if got := strings.Join(patterns, " "); got != "* m* mail.* *.send mail.send* mail.send" {
		t.Error(got)
	}
}

// A pattern means what the regular expression means that one would write for it.
func FuzzFits(f *testing.F) {
	for _, seed := range [][2]string{{"*", ""}, {"a*b", "axb"}, {"**a", "aa"}, {"a*a*a", "aaa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil || !strings.Contains(pattern, "*") {
			return
		}
		if strings.ToValidUTF8(pattern+text, "") != pattern+text {
			return
		}
		if got := Fits(pattern, text); got != re.MatchString(text) {
			t.Errorf("%q fits %q: %t", text, pattern, got)
		}
	})
}
