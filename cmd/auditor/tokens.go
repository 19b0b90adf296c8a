package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/web"
)

// tokensEvery is how long it takes at most until a changed file of tokens counts.
const tokensEvery = 5 * time.Second

// tokenFile holds the tokens of a file that may change. It is safe for concurrent use.
type tokenFile struct {
	name string
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	looked time.Time
	was    fs.FileInfo // of the file that was read; nil when there was none
	tokens web.Tokens
}

// openTokens reads the file, which must be without fault now, and hold a token.
func openTokens(name string, log *slog.Logger, now func() time.Time) (*tokenFile, error) {
	f := &tokenFile{name: name, log: log, now: now, looked: now()}
	err := f.read()
	if err == nil && f.tokens.Empty() {
		err = errors.New("holds no token")
	}
	if err != nil {
		return nil, &config.Error{Field: "intake.tokens_file", Reason: err.Error()}
	}
	return f, nil
}

// current gives the tokens that count now. Of a file that was changed and has a fault, the lines without one count; of a file that
// is gone, none: what was taken away must not go on to count.
func (f *tokenFile) current() web.Tokens {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.looked) < tokensEvery {
		return f.tokens
	}
	f.looked = now
	info, err := os.Stat(f.name)
	if err != nil && f.was == nil || err == nil && f.was != nil && os.SameFile(info, f.was) && info.ModTime().Equal(f.was.ModTime()) && info.Size() == f.was.Size() {
		return f.tokens
	}
	if err := f.read(); err != nil {
		f.log.Error("the file of tokens has a fault, and only the lines without one count", "error", err)
	} else {
		f.log.Info("the file of tokens was read again", "file", f.name)
	}
	return f.tokens
}

func (f *tokenFile) read() error {
	f.tokens, f.was = web.Tokens{}, nil
	file, err := os.Open(f.name)
	if err != nil {
		return err
	}
	defer file.Close()
	if f.was, err = file.Stat(); err != nil {
		return err
	}
	if f.tokens, err = web.ReadTokens(file); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}
