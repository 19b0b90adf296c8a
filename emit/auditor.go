package emit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"auditor/event"
)

// Bounds of one request to an auditor, and of its answer.
const (
	requestTimeout = 30 * time.Second
	maxRequest     = 1 << 20 // bytes before compression, unless one event has more
	maxAnswer      = 16 << 20
	longestPause   = time.Minute // that a server may ask for
)

// auditor sends to the HTTP intake of an auditor, which answers when Kafka has the events.
type auditor struct {
	url    string
	token  string
	client *http.Client
}

func newAuditor(c Config) *auditor {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = c.TLS
	return &auditor{
		url:   strings.TrimRight(c.URL, "/") + "/api/v1/events",
		token: c.Token,
		client: &http.Client{Transport: transport, Timeout: requestTimeout,
			// A token goes to nobody else, and a POST that is sent on as a GET says that it was taken where it was not.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

func (a *auditor) close() error {
	a.client.CloseIdleConnections()
	return nil
}

// send sends the records as lines, in requests of a bounded size. After one that failed, those behind it are not tried: they would
// overtake it.
func (a *auditor) send(ctx context.Context, records []event.Record) []error {
	var errs []error
	for first := 0; first < len(records); {
		last, size := first+1, len(records[first].Value)
		for last < len(records) && size+len(records[last].Value) <= maxRequest {
			size += len(records[last].Value)
			last++
		}
		failed := a.post(ctx, records[first:last])
		if failed != nil && errs == nil {
			errs = make([]error, len(records))
		}
		if failed != nil {
			copy(errs[first:], failed)
			if err := mayFollow(failed); err != nil {
				copy(errs[last:], all(len(records)-last, err))
				break
			}
		}
		first = last
	}
	return errs
}

// answer is what an auditor says of the events that it was sent.
type answer struct {
	Detail string `json:"detail"` // of a problem
	Errors []struct {
		Index  int    `json:"index"`
		Reason string `json:"reason"`
		Detail string `json:"detail"`
	} `json:"errors"`
}

func (a *auditor) post(ctx context.Context, records []event.Record) []error {
	body, err := lines(records)
	if err != nil {
		return all(len(records), err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, body)
	if err != nil {
		return all(len(records), lasting{err})
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Content-Encoding", "gzip")
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return all(len(records), err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return all(len(records), fmt.Errorf("read the answer: %w", err))
	}
	return a.judge(ctx, records, response, text)
}

// judge tells what an answer says of each record.
func (a *auditor) judge(ctx context.Context, records []event.Record, response *http.Response, text []byte) []error {
	var said answer
	broken := json.Unmarshal(text, &said)
	err := fmt.Errorf("%s answers %s: %s", a.url, response.Status, said.Detail)
	switch status := response.StatusCode; {
	case status == http.StatusOK && broken == nil:
		return nil
	case (status == http.StatusMultiStatus || status == http.StatusBadRequest) && len(said.Errors) > 0:
		errs := make([]error, len(records))
		for _, one := range said.Errors {
			if one.Index < 0 || one.Index >= len(records) {
				return all(len(records), lasting{fmt.Errorf("%w: it names an event that was not sent", err)})
			}
			errs[one.Index] = &RefusedError{errors.New(one.Reason + ": " + one.Detail)}
		}
		return errs
	case status == http.StatusRequestEntityTooLarge && len(records) > 1:
		half := len(records) / 2
		errs := append(a.orNone(ctx, records[:half]), a.orNone(ctx, records[half:])...)
		return errs
	case status == http.StatusRequestEntityTooLarge:
		return all(1, &RefusedError{err})
	case status == http.StatusTooManyRequests || status >= 500:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return all(len(records), pausing{err, min(max(time.Duration(seconds)*time.Second, 0), longestPause)})
	}
	return all(len(records), lasting{err})
}

// orNone is post with an error, or nil, for each record.
func (a *auditor) orNone(ctx context.Context, records []event.Record) []error {
	if errs := a.post(ctx, records); errs != nil {
		return errs
	}
	return make([]error, len(records))
}

// lines packs the records one a line.
func lines(records []event.Record) (io.Reader, error) {
	var body bytes.Buffer
	pack, err := gzip.NewWriterLevel(&body, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		line := bytes.ReplaceAll(r.Value, []byte("\n"), []byte(" ")) // in JSON that is white space, wherever it stands
		if _, err := pack.Write(append(line, '\n')); err != nil {
			return nil, err
		}
	}
	return &body, pack.Close()
}
