package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// importNote notes beside a file how far it is imported. It is there to save time only: what is imported twice counts once.
type importNote struct {
	To      string `json:"to"`      // where it goes
	Options string `json:"options"` // what it is read by
	Head    int64  `json:"head"`    // bytes at the beginning of the file, by which it is known again
	Digest  string `json:"digest"`  // of those
	Records int64  `json:"records"` // that are imported, or could not be read
	Events  int    `json:"events"`
	Bad     int    `json:"bad"`

	path   string
	broken bool // it cannot be written, which was told
}

// headBytes is by how much of its beginning a file is known again. It may have grown since.
const headBytes = 64 << 10

// noteOf begins a note of a file with what an earlier import has noted, if that was of the same file, read in the same way, to the same
// place. The file is at its beginning before and afterwards.
func noteOf(f *os.File, to, options string) (*importNote, error) {
	n := &importNote{To: to, Options: options, path: f.Name() + ".imported"}
	text, err := os.ReadFile(n.path)
	var earlier importNote
	if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && json.Unmarshal(text, &earlier) != nil {
		earlier = importNote{} // what cannot be read says nothing
	}
	head, digest, err := digestOfHead(f, headBytes)
	if err != nil {
		return nil, err
	}
	n.Head, n.Digest = head, digest
	if earlier.To != to || earlier.Options != options || earlier.Records < 0 || earlier.Head <= 0 || earlier.Head > head {
		return n, nil
	}
	if earlier.Head < head {
		if _, digest, err = digestOfHead(f, earlier.Head); err != nil {
			return nil, err
		}
	}
	if digest == earlier.Digest {
		n.Records, n.Events, n.Bad = earlier.Records, earlier.Events, earlier.Bad
	}
	return n, nil
}

func digestOfHead(f *os.File, most int64) (int64, string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, most))
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}

// resume is what was imported before: records, events, and records that could not be read.
func (n *importNote) resume() (records int64, events, bad int) { return n.Records, n.Events, n.Bad }

// keep notes what is imported by now. Where that cannot be written, it says so once, and the import goes on.
func (n *importNote) keep(records int64, events, bad int, warn io.Writer) error {
	if n == nil || n.broken {
		return nil
	}
	n.Records, n.Events, n.Bad = records, events, bad
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
