package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// store asks the engine, over its HTTP interface and in words of its own: a checker that leans on the queries of the
// program that it checks would be blind where that is.
type store struct {
	addr     string
	password string
	database string
	client   http.Client
}

// ask calls row with the fields of each row of the answer, which must hold no tabs or line breaks.
func (s *store) ask(ctx context.Context, query string, row func(fields []string) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	address := "http://" + s.addr + "/?default_format=TabSeparatedRaw&database=" + url.QueryEscape(s.database)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(query))
	if err != nil {
		return err
	}
	request.SetBasicAuth("default", s.password)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 2<<10))
		return fmt.Errorf("%s: %s", query, strings.TrimSpace(string(text)))
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if row == nil {
			continue
		}
		if err := row(strings.Split(lines.Text(), "\t")); err != nil {
			return fmt.Errorf("%s: %q: %w", query, lines.Text(), err)
		}
	}
	return lines.Err()
}

// do runs a statement that answers nothing.
func (s *store) do(ctx context.Context, statement string) error { return s.ask(ctx, statement, nil) }

// numbers reads the integers that a row begins with, as many as there are places for them.
func numbers(fields []string, into ...*int64) (err error) {
	if len(fields) < len(into) {
		return fmt.Errorf("%d fields, not %d", len(fields), len(into))
	}
	for i, place := range into {
		if *place, err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return err
		}
	}
	return nil
}

// reaches gives how far something has come in each partition: a query of a partition and an offset.
func (s *store) reaches(ctx context.Context, query string) (map[int32]int64, error) {
	at := make(map[int32]int64)
	err := s.ask(ctx, query, func(fields []string) error {
		var partition, offset int64
		err := numbers(fields, &partition, &offset)
		at[int32(partition)] = offset
		return err
	})
	return at, err
}

const (
	ledgerReaches = "SELECT kafka_partition, max(last) + 1 FROM ingest_ledger WHERE kafka_topic = '" + topic + "' GROUP BY kafka_partition"
	rulesReach    = "SELECT kafka_partition, argMax(next_offset, version) FROM rule_cursors WHERE name = 'rules' AND kafka_topic = '" + topic + "' GROUP BY kafka_partition"
)

// countedTables are those of which rows are counted, and not keys.
var countedTables = []string{"events", "rejects"}

// keepRows keeps the engine from merging the rows that are counted: a merge would drop a row that is there twice, and so
// hide it. Without merges there are more parts than an engine usually bears.
func (s *store) keepRows(ctx context.Context) error {
	for _, table := range countedTables {
		err := s.do(ctx, "ALTER TABLE "+table+" MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1, "+
			"parts_to_delay_insert = 100000, parts_to_throw_insert = 100000")
		if err != nil {
			return err
		}
	}
	return nil
}

// mergeRows lets the engine merge them, and has it done: the rules are slow on thousands of parts.
func (s *store) mergeRows(ctx context.Context) error {
	for _, table := range countedTables {
		for _, statement := range []string{
			"ALTER TABLE " + table + " RESET SETTING max_bytes_to_merge_at_max_space_in_pool",
			"OPTIMIZE TABLE " + table + " FINAL",
		} {
			if err := s.do(ctx, statement); err != nil {
				return err
			}
		}
	}
	return nil
}
