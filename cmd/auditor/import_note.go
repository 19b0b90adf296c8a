package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// importNote notes beside a file how far it is imported. It is there to save time only: what is imported twice counts once.
type importNote struct {
	To      string `json:"to"`      // where it goes
	Options string `json:"options"` // what it is read by
	Records int64  `json:"records"` // that are imported, or could not be read
	Digest  chain  `json:"digest"`  // of those, by which the file is known again
	Events  int    `json:"events"`
	Bad     int    `json:"bad"`

	path   string
	broken bool // it cannot be written, which was told
}

// chain is a digest of records, one after another. The zero value is of none.
type chain [sha256.Size]byte

func (c chain) and(value []byte) chain {
	one := sha256.Sum256(value)
	return sha256.Sum256(append(c[:], one[:]...))
}

func (c chain) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(c[:])), nil }

func (c *chain) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(c) {
		return errors.New("no digest")
	}
	_, err := hex.Decode(c[:], text)
	return err
}

// noteOf begins a note of a file with what an earlier import has noted, if that read it in the same way, to the same place.
func noteOf(f *os.File, to, options string) *importNote {
	n := &importNote{To: to, Options: options, path: f.Name() + ".imported"}
	text, err := os.ReadFile(n.path)
	var earlier importNote
	if err != nil || json.Unmarshal(text, &earlier) != nil { // what cannot be read says nothing
		return n
	}
	if earlier.To == to && earlier.Options == options && earlier.Records > 0 {
		n.Records, n.Digest, n.Events, n.Bad = earlier.Records, earlier.Digest, earlier.Events, earlier.Bad
	}
	return n
}

// keep notes what is imported by now. Where that cannot be written, it says so once, and the import goes on.
func (n *importNote) keep(records int64, digest chain, events, bad int, warn io.Writer) error {
	if n == nil || n.broken {
		return nil
	}
	n.Records, n.Digest, n.Events, n.Bad = records, digest, events, bad
	err := n.write()
	if err == nil {
		return nil
	}
	n.broken = true
	_, err = fmt.Fprintf(warn, "auditor: how far the import is cannot be noted, so the same command would begin anew: %v\n", err)
	return err
}

// write replaces the note as a whole.
func (n *importNote) write() error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(n.path), filepath.Base(n.path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), n.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
