package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Format is what a file holds.
type Format string

// The formats. Auto finds out which it is, by the file's name and beginning.
const (
	Auto   Format = "auto"
	Events Format = "events" // events in any format, one a line or an array, and tasks of Flower among them
	Flower Format = "flower" // one object of tasks by their ids, as Flower's /api/tasks answers
	CSV    Format = "csv"
)

// Formats lists them.
var Formats = []Format{Auto, Events, Flower, CSV}

// beginning is how much of a file tells what it is.
const beginning = 64 << 10

// Read gives the records of a file, which may be packed by gzip. An error ends them; what is wrong with one record is told by it.
func Read(r io.Reader, name string, f Format, t Table) iter.Seq2[Record, error] {
	in := bufio.NewReaderSize(r, beginning)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return failing(fmt.Errorf("unpack: %w", err))
		}
		in, name = bufio.NewReaderSize(unpacked, beginning), strings.TrimSuffix(name, ".gz")
	}
	if f == Auto {
		f = formatOf(in, name)
	}
	switch f {
	case CSV:
		if t.Delimiter == 0 && strings.HasSuffix(strings.ToLower(name), ".tsv") {
			t.Delimiter = '\t'
		}
		return t.records(in)
	case Flower:
		return split(flowerExport(in))
	}
	return split(Records(in))
}

func formatOf(in *bufio.Reader, name string) Format {
	if name = strings.ToLower(name); strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".tsv") {
		return CSV
	}
	first, _ := in.Peek(beginning) // a shorter file gives what there is
	if isFlowerExport(first) {
		return Flower
	}
	return Events
}

func failing(err error) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) { yield(Record{}, err) }
}

// split makes the events of each task of Flower, and leaves other records as they are.
func split(all iter.Seq2[Record, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for rec, err := range all {
			if err != nil || rec.Bad != "" || !isFlowerTask(rec.Value) {
				if !yield(rec, err) {
					return
				}
				continue
			}
			events, err := flowerEvents(rec.Value)
			if err != nil {
				events = [][]byte{nil}
				rec.Bad = err.Error()
			}
			for _, value := range events {
				rec.Value = value
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}
