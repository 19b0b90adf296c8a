package clickhouse

import "strings"

// A statement is an SQL text split as far as serving it needs: the engine itself does all further reading.
type statement struct {
	sql  string
	kind statementKind
	// For an insert: sql ends before the data, format is what the statement names for it (or empty), and data is what
	// follows in the text.
	format, data string
}

type statementKind int

const (
	// command is whatever answers in one piece: definitions, settings, descriptions, INSERT ... SELECT.
	command statementKind = iota
	// read is a query, whose answer can be streamed.
	read
	// insert waits for data.
	insert
)

var (
	errMultiStatements = &exception{62, "SYNTAX_ERROR", "Multi-statements are not allowed"}
	errEmpty           = &exception{62, "SYNTAX_ERROR", "Empty query"}
	errFiles           = &exception{48, "NOT_IMPLEMENTED", "INTO OUTFILE and FROM INFILE are not allowed over HTTP"}
)

// splitStatement reads one statement. Of the text of an insert only the part before the data is read.
func splitStatement(text string) (statement, error) {
	s := scanner{text: text}
	first := s.next()
	for first.is("(") {
		first = s.next()
	}
	if first.kind == endOfText {
		return statement{}, errEmpty
	}
	if first.is("INSERT") {
		return splitInsert(text, scanner{text: text})
	}
	result := statement{sql: text}
	if first.is("SELECT") || first.is("WITH") || first.is("FROM") {
		result.kind = read
	}
	previous := first
	for token := first; token.kind != endOfText; token = s.next() {
		switch {
		case token.is("INSERT") && s.depth == 0 && !previous.is("."):
			result.kind = command
		case token.is("OUTFILE") && previous.is("INTO"):
			return statement{}, errFiles
		case previous.is(";") && !token.is(";"):
			return statement{}, errMultiStatements
		}
		previous = token
	}
	return result, nil
}

// splitInsert finds what the data of an insert begins after: INSERT [INTO] [TABLE] [FUNCTION] name [(columns)]
// [PARTITION BY ...] [SETTINGS ...] then VALUES, or FORMAT and a name, or the end, if it is no INSERT ... SELECT.
func splitInsert(text string, s scanner) (statement, error) {
	token := s.next()
	for token.is("INSERT") || token.is("INTO") || token.is("TABLE") || token.is("FUNCTION") {
		token = s.next()
	}
	// The name, which may be any word, dotted.
	previous := token
	for {
		token = s.next()
		switch {
		case token.kind == endOfText:
			return statement{sql: text, kind: insert}, nil
		case token.is(";"):
			if s.next().kind != endOfText {
				return statement{}, errMultiStatements
			}
			return statement{sql: text[:token.start], kind: insert}, nil
		case token.is("INFILE") && previous.is("FROM"):
			return statement{}, errFiles
		case (token.is("SELECT") || token.is("WITH")) && (s.depth == 0 || s.depth == 1 && previous.is("(")):
			return remainder(text, s)
		case previous.is("."):
		case s.depth == 0 && token.is("VALUES"):
			return statement{sql: text[:token.start], kind: insert, format: "Values", data: text[token.end:]}, nil
		case s.depth == 0 && token.is("FORMAT"):
			name := s.next()
			if name.kind != word {
				return statement{sql: text}, nil
			}
			return statement{sql: text[:token.start], kind: insert, format: text[name.start:name.end],
				data: dataAfterFormat(text[name.end:])}, nil
		}
		previous = token
	}
}

// remainder checks what follows in an INSERT ... SELECT.
func remainder(text string, s scanner) (statement, error) {
	for token := s.next(); token.kind != endOfText; token = s.next() {
		if token.is(";") && s.next().kind != endOfText {
			return statement{}, errMultiStatements
		}
	}
	return statement{sql: text}, nil
}

// dataAfterFormat drops what ClickHouse drops between the format's name and the data: blanks, and one line break.
func dataAfterFormat(text string) string {
	text = strings.TrimLeft(text, " \t\f")
	text = strings.TrimPrefix(text, "\r")
	return strings.TrimPrefix(text, "\n")
}

type tokenKind int

const (
	endOfText tokenKind = iota
	word
	quoted
	symbol
)

type token struct {
	kind       tokenKind
	text       string
	start, end int
}

// is tells whether the token is this word, in any case, or this symbol.
func (t token) is(what string) bool {
	return (t.kind == word || t.kind == symbol) && strings.EqualFold(t.text, what)
}

// A scanner splits SQL into words, quoted texts and single symbols, and skips comments. It never fails: what is left
// open ends with the text, and the engine will say what is wrong with it.
type scanner struct {
	text  string
	at    int
	depth int // of parentheses
}

func (s *scanner) next() token {
	s.skipBlanks()
	start := s.at
	if start >= len(s.text) {
		return token{start: start, end: start}
	}
	kind := symbol
	switch c := s.text[start]; {
	case isWord(c):
		kind = word
		for s.at < len(s.text) && isWord(s.text[s.at]) {
			s.at++
		}
	case c == '\'' || c == '"' || c == '`':
		kind = quoted
		s.skipQuoted(c)
	case c == '$' && s.skipHeredoc():
		kind = quoted
	default:
		s.at++
		switch c {
		case '(':
			s.depth++
		case ')':
			s.depth--
		}
	}
	return token{kind: kind, text: s.text[start:s.at], start: start, end: s.at}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (s *scanner) skipBlanks() {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.IndexByte(" \t\r\n\v\f", rest[0]) >= 0:
			s.at++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "# "), strings.HasPrefix(rest, "#!"):
			s.skipPast(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			s.at += 2
			s.skipPast(rest[2:], "*/")
		default:
			return
		}
	}
}

func (s *scanner) skipPast(rest, end string) {
	if i := strings.Index(rest, end); i >= 0 {
		s.at += i + len(end)
		return
	}
	s.at = len(s.text)
}

// skipQuoted passes a quoted text, in which a backslash escapes, and a doubled quote stands for one: two texts side by
// side are as good.
func (s *scanner) skipQuoted(quote byte) {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case quote:
			s.at++
			return
		}
	}
	s.at = len(s.text)
}

// skipHeredoc passes $tag$ ... $tag$ where one begins.
func (s *scanner) skipHeredoc() bool {
	rest := s.text[s.at:]
	i := 1
	for i < len(rest) && isWord(rest[i]) {
		i++
	}
	if i == len(rest) || rest[i] != '$' {
		return false
	}
	tag := rest[:i+1]
	end := strings.Index(rest[len(tag):], tag)
	if end < 0 {
		return false
	}
	s.at += len(tag) + end + len(tag)
	return true
}
