// Package pattern tells which names fit a pattern: * stands for any text, also for none, and all else for itself.
package pattern

import (
	"cmp"
	"slices"
	"strings"
)

// Fits reports whether a text fits a pattern.
func Fits(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], more
	}
}

// FitsAny reports whether a text fits one of the patterns.
func FitsAny(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Fits(p, text) })
}

// Is reports whether a text is a pattern, and not a name that only it itself fits.
func Is(text string) bool { return strings.Contains(text, "*") }

// Compare orders patterns, those that say the least first: a name without a * says the most, and of patterns the one with
// more letters. Patterns that say as much are in the order of the alphabet, backwards.
func Compare(a, b string) int { return cmp.Or(cmp.Compare(says(a), says(b)), strings.Compare(b, a)) }

func says(pattern string) int {
	stars := strings.Count(pattern, "*")
	if stars == 0 {
		return 1 << 30
	}
	return len(pattern) - stars
}
