package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"auditor/cmd/auditor/archive"
	"auditor/cmd/auditor/config"
	"auditor/emit"
	"auditor/event"
)

// importCommand brings what happened before there was an auditor.
type importCommand struct {
	destination
	Format    string            `default:"auto" enum:"auto,events,flower,csv" help:"What the files hold: auto, events, flower or csv (${default})."`
	Column    map[string]string `placeholder:"FIELD=COLUMN" help:"Of a CSV file: the column that a field of events is in, such as task_id=uuid; may be given several times."`
	Value     map[string]string `placeholder:"FIELD=TEXT" help:"Of a CSV file: what a field is in every row, such as type=succeeded; may be given several times."`
	Delimiter string            `placeholder:"LETTER" help:"Of a CSV file: what stands between two cells (a comma, in .tsv files a tab)."`
	Zone      string            `default:"UTC" placeholder:"NAME" help:"Of a CSV file: time zone of times that tell none (${default})."`
	BadLimit  int               `default:"1000" placeholder:"N" help:"Stop when more records of a file than this cannot be read; 0: never (${default})."`
	Again     bool              `help:"Begin each file anew, and leave alone what is noted of its progress."`
	DryRun    bool              `help:"Send nothing: print the first events of each file as they would be read, and count."`
	Files     []string          `arg:"" name:"file" help:"Files, also packed by gzip; - is standard input."`
}

// Run imports the files one after another.
func (i importCommand) Run(env *environment) error {
	table, err := i.table()
	if err != nil {
		return usageError{err}
	}
	run := &importing{format: archive.Format(i.Format), table: table, limit: i.BadLimit, again: i.Again, dry: i.DryRun, env: env}
	if i.DryRun {
		c, err := env.load(nil, nil)
		if err != nil {
			return err
		}
		run.decoder, err = event.NewDecoder(c.Decoder())
		if err != nil {
			return err
		}
		return run.files(env.ctx, i.Files)
	}
	to, c, err := i.open(env)
	if err != nil {
		return err
	}
	if run.decoder, err = event.NewDecoder(c.Decoder()); err != nil {
		return err
	}
	publisher, err := emit.NewPublisher(to)
	if err != nil {
		return err
	}
	defer publisher.Close()
	run.publish = publisher.Publish
	if run.to, err = placeOf(to, c); err != nil {
		return err
	}
	return run.files(env.ctx, i.Files)
}

// placeOf names where events go, the same each time: an embedded broker may have another port tomorrow.
func placeOf(to emit.Config, c config.Config) (string, error) {
	switch {
	case to.URL != "":
		return to.URL, nil
	case len(c.Kafka.Brokers) > 0:
		return strings.Join(to.Brokers, ",") + "/" + to.Topic, nil
	}
	data, err := filepath.Abs(c.Data)
	return data + "/" + to.Topic, err
}

// table is what the flags say of CSV files.
func (i importCommand) table() (archive.Table, error) {
	zone, err := time.LoadLocation(i.Zone)
	if err != nil {
		return archive.Table{}, fmt.Errorf("--zone: must be the name of a time zone, such as UTC or Europe/Vienna, not %q", i.Zone)
	}
	t := archive.Table{Columns: i.Column, Values: i.Value, Zone: zone}
	if i.Delimiter != "" {
		r, size := utf8.DecodeRuneInString(i.Delimiter)
		if i.Delimiter == `\t` {
			r, size = '\t', 2
		}
		if r == utf8.RuneError || size != len(i.Delimiter) {
			return t, fmt.Errorf("--delimiter: must be one letter, not %q", i.Delimiter)
		}
		t.Delimiter = r
	}
	if i.BadLimit < 0 {
		return t, fmt.Errorf("--bad-limit: must be 0 or more, not %d", i.BadLimit)
	}
	return t, t.Validate()
}

// importing imports files.
type importing struct {
	env     *environment
	format  archive.Format
	table   archive.Table
	decoder *event.Decoder
	publish func(context.Context, []event.Record) error
	to      string // where to, as the notes of progress tell it
	limit   int
	again   bool
	dry     bool
}

func (i *importing) files(ctx context.Context, names []string) error {
	for n, name := range names {
		if slices.Contains(names[:n], name) {
			return usageError{fmt.Errorf("%s is given twice", name)}
		}
	}
	for _, name := range names {
		err := i.file(ctx, name, i.again)
		if errors.Is(err, errAnotherFile) {
			fmt.Fprintf(i.env.stderr, "auditor: %s has changed since it was imported, and is imported anew; what counts already counts once\n", name)
			err = i.file(ctx, name, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printed is how many events of a file a dry run prints.
const printed = 3

// file imports one file, from where it was left, and says what came of it.
func (i *importing) file(ctx context.Context, name string, anew bool) error {
	source, err := openSource(name, i.env.stdin)
	if err != nil {
		return err
	}
	defer source.close()
	s := &sending{name: source.name, decoder: i.decoder, warn: i.env.stderr, most: i.limit}
	if i.dry {
		i.rehearse(s)
	} else {
		s.publish = i.publish
	}
	var note *importNote
	if source.file != nil && !i.dry {
		note = noteOf(source.file, i.to, i.options())
		if !anew {
			s.skip, s.skipped, s.sent, s.bad = note.Records, note.Digest, note.Events, note.Bad
		}
	}
	before := s.sent
	bar := &importBar{out: i.env.stdout, terminal: isTerminal(i.env), name: source.name, size: source.size, read: source.read, now: time.Now}
	bar.begin(before)
	s.flushed = func() error {
		bar.tell(s.sent, s.bad)
		switch {
		case s.read == s.skip:
			return note.keep(s.skip, s.skipped, s.sent, s.bad, i.env.stderr)
		case s.lastBad: // it may be a line that is still being written
			return note.keep(s.read-1, s.before, s.sent, s.bad-1, i.env.stderr)
		}
		return note.keep(s.read, s.digest, s.sent, s.bad, i.env.stderr)
	}
	err = s.all(ctx, archive.Read(source, name, i.format, i.table))
	bar.end()
	if errors.Is(err, errAnotherFile) {
		return err
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s: stopped after %s; the same command goes on from there", s.name, count(s.sent, "event"))
	}
	if left := s.bad - maxWarnings; left > 0 {
		fmt.Fprintf(i.env.stderr, "auditor: %s: and %d more could not be read\n", s.name, left)
	}
	if told := i.conclude(s, before); err == nil {
		err = told
	}
	if err == nil && s.sent == 0 && s.bad > 0 {
		err = fmt.Errorf("%s: nothing could be read", s.name)
	}
	return err
}

// rehearse prints the first events in place of sending them.
func (i *importing) rehearse(s *sending) {
	left := printed
	s.publish = func(_ context.Context, records []event.Record) error {
		for _, r := range records {
			events, _ := i.decoder.Decode(event.Record{Value: r.Value})
			for n := range events {
				if left--; left < 0 {
					return nil
				}
				if _, err := fmt.Fprintf(i.env.stdout, "%s\n", events[n].AppendJSON(nil)); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (i *importing) conclude(s *sending, before int) error {
	what := "Imported"
	if i.dry {
		what = "Would import"
	}
	line := fmt.Sprintf("%s %s from %s, %s not read.", what, count(s.sent-before, "event"), s.name, count(s.bad, "record"))
	if before > 0 || s.skip > 0 {
		line += fmt.Sprintf(" %s of it had been imported before.", count(before, "event"))
	}
	_, err := fmt.Fprintln(i.env.stdout, line)
	return err
}

// options are what a file is read by: read otherwise it is another one.
func (i *importing) options() string {
	return fmt.Sprintf("%s %v %v %q %s", i.format, i.table.Columns, i.table.Values, i.table.Delimiter, i.table.Zone)
}

// source is a file that is read, or standard input.
type source struct {
	io.Reader
	name string
	file *os.File // nil for standard input
	size int64    // 0 when it is not known
	n    int64    // bytes read
}

func openSource(name string, stdin io.Reader) (*source, error) {
	if name == "-" {
		return &source{Reader: stdin, name: "standard input"}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s := &source{Reader: f, name: name}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s: is no file", name), err, f.Close())
	}
	if info.Mode().IsRegular() {
		s.file, s.size = f, info.Size()
	}
	return s, nil
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.n += int64(n)
	return n, err
}

func (s *source) read() int64 { return s.n }

func (s *source) close() {
	if c, ok := s.Reader.(*os.File); ok && s.name != "standard input" {
		_ = c.Close() // it was only read
	}
}
