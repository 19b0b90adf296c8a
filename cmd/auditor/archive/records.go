// Package archive reads files of what happened to tasks: events, and what other programs export, as records of the formats that ingest
// reads. What it is given is never trusted: it holds one record at a time, of a bounded size.
package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxLine bounds what one line may take of memory. The decoder's own bound is far below.
const MaxLine = 64 << 20

// Record is one piece of a file: a line, an element of the one array that the file is, or what was made of one.
type Record struct {
	Number int64 // of the line, the element, the row or the task, from 1
	Value  []byte
	Bad    string // why nothing could be made of it; empty otherwise
}

var errLongLine = fmt.Errorf("a line is longer than %d bytes", MaxLine)

// Records gives the records of a file: its lines, blank ones left out, unless the whole file is one JSON array, whose
// elements it then gives.
func Records(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		lines := &lineReader{in: bufio.NewReaderSize(r, 1<<16)}
		first, err := lines.next()
		if err == nil && bytes.HasPrefix(bytes.TrimSpace(first.Value), []byte("[")) && isArrayFile(first.Value, lines) {
			elements(io.MultiReader(bytes.NewReader(first.Value), lines.in), yield)
			return
		}
		for ; err == nil; first, err = lines.next() {
			if !yield(first, nil) {
				return
			}
		}
		if err != io.EOF {
			yield(Record{}, err)
		}
	}
}

// isArrayFile tells a file that is one array from lines that are arrays: the array is not over at the end of the first
// line, or nothing follows it.
func isArrayFile(first []byte, lines *lineReader) bool {
	if !json.Valid(first) {
		return true
	}
	return lines.onlyBlankLeft()
}

// unfinished stands for the end of an array that breaks off: it is rejected as JSON that ends too early.
var unfinished = []byte("[")

// elements gives the elements of the array that r holds. What breaks the array is given as one last record, so that it
// is rejected with its reason like any other.
func elements(r io.Reader, yield func(Record, error) bool) {
	decoder := json.NewDecoder(r)
	if _, err := decoder.Token(); err != nil {
		yield(Record{}, err)
		return
	}
	number := int64(1)
	for ; decoder.More(); number++ {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			left := rest(decoder, r)
			if len(bytes.TrimSpace(left)) == 0 {
				left = unfinished
			}
			yield(Record{Number: number, Value: left}, nil)
			return
		}
		if !yield(Record{Number: number, Value: value}, nil) {
			return
		}
	}
	if _, err := decoder.Token(); err != nil {
		yield(Record{Number: number, Value: unfinished}, nil)
		return
	}
	if tail := bytes.TrimSpace(rest(decoder, r)); len(tail) > 0 {
		yield(Record{Number: number, Value: tail}, nil)
	}
}

// rest is what the decoder has not taken, cut to a size that is surely rejected as a whole.
func rest(decoder *json.Decoder, r io.Reader) []byte {
	left, err := io.ReadAll(io.LimitReader(io.MultiReader(decoder.Buffered(), r), 2<<20))
	if err != nil {
		return []byte(err.Error())
	}
	return left
}

// lineReader reads lines that are not blank.
type lineReader struct {
	in     *bufio.Reader
	number int64
}

// next is the next line, its newline included. It gives io.EOF after the last.
func (l *lineReader) next() (Record, error) {
	for {
		value, err := l.line()
		l.number++
		if len(bytes.TrimSpace(value)) > 0 && (err == nil || err == io.EOF) {
			return Record{Number: l.number, Value: value}, nil
		}
		if err != nil {
			return Record{}, err
		}
	}
}

func (l *lineReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxLine {
			return nil, errLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// onlyBlankLeft reports whether nothing but white space follows. It takes blank bytes only.
func (l *lineReader) onlyBlankLeft() bool {
	for {
		b, err := l.in.ReadByte()
		if err != nil {
			return true
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			_ = l.in.UnreadByte() // what was just read can be put back
			return false
		}
		if b == '\n' {
			l.number++
		}
	}
}
