package web

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ScopeEmit lets the bearer of a token send events.
const ScopeEmit = "emit"

var scopes = []string{ScopeEmit}

const (
	shortestToken = 20 // bytes; a shorter one can be guessed
	hashPrefix    = "sha256:"
)

// Tokens are who may do what over HTTP. Only digests of the tokens are held. The zero value knows nobody.
type Tokens struct{ all []token }

type token struct {
	name   string
	scopes []string
	digest [sha256.Size]byte
}

// ReadTokens reads a file of tokens. Each line holds a name, the scopes with commas between, and the token itself or
// sha256: and the hexadecimal digest of it; blank lines and those that begin with # say nothing. The error names every line that
// is wrong, and never a token; what the other lines say is given beside it.
func ReadTokens(r io.Reader) (Tokens, error) {
	var t Tokens
	var errs []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		one, err := parseToken(line)
		if err == nil {
			err = t.add(one)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
	}
	return t, errors.Join(append(errs, lines.Err())...)
}

func parseToken(line string) (token, error) {
	parts := strings.Fields(line)
	if len(parts) != 3 {
		return token{}, errors.New("must hold a name, scopes and a token, such as: shop emit 6f1c...")
	}
	t := token{name: parts[0], scopes: strings.Split(parts[1], ",")}
	for _, s := range t.scopes {
		if !slices.Contains(scopes, s) {
			return token{}, fmt.Errorf("scopes: must be among %s, not %q", strings.Join(scopes, ", "), s)
		}
	}
	if digest, isDigest := strings.CutPrefix(parts[2], hashPrefix); isDigest {
		raw, err := hex.DecodeString(digest)
		if err != nil || len(raw) != sha256.Size {
			return token{}, errors.New("sha256: must be followed by 64 hexadecimal digits")
		}
		t.digest = [sha256.Size]byte(raw)
		return t, nil
	}
	if len(parts[2]) < shortestToken {
		return token{}, fmt.Errorf("the token must have %d letters or more", shortestToken)
	}
	t.digest = sha256.Sum256([]byte(parts[2]))
	return t, nil
}

func (t *Tokens) add(one token) error {
	for _, other := range t.all {
		if other.name == one.name || other.digest == one.digest {
			return fmt.Errorf("%s has the name or the token of a line before", one.name)
		}
	}
	t.all = append(t.all, one)
	return nil
}

// Empty reports whether nobody is known.
func (t Tokens) Empty() bool { return len(t.all) == 0 }

// Equal reports whether the same may do the same.
func (t Tokens) Equal(other Tokens) bool {
	return slices.EqualFunc(t.all, other.all, func(a, b token) bool {
		return a.name == b.name && a.digest == b.digest && slices.Equal(a.scopes, b.scopes)
	})
}

// find gives the token that a secret is. How long it takes does not tell how much of the secret is right.
func (t Tokens) find(secret string) (token, bool) {
	digest := sha256.Sum256([]byte(secret))
	place := -1
	for i := range t.all {
		place = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], t.all[i].digest[:]), i, place)
	}
	if place < 0 {
		return token{}, false
	}
	return t.all[place], true
}
