package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"auditor/event"
)

const (
	topic      = "task-events"
	partitions = 4
	stopLimit  = 40 * time.Second
	lookEvery  = 200 * time.Millisecond
)

// auditor is the program as it is shipped, with its embedded servers, on a directory of its own.
type auditor struct {
	command *exec.Cmd
	ended   chan struct{} // closed once it has
	err     error         // how it ended; to be read after ended
	log     string        // path
	addr    string        // of its API
	broker  string        // address
	client  http.Client
}

// startAuditor starts it. It must be stopped.
func startAuditor(program, dir string) (*auditor, error) {
	a := &auditor{log: filepath.Join(dir, "auditor.log"), ended: make(chan struct{}), client: http.Client{Timeout: time.Minute}}
	for _, addr := range []*string{&a.addr, &a.broker} {
		free, err := freeAddr()
		if err != nil {
			return nil, err
		}
		*addr = free
	}
	file := filepath.Join(dir, "auditor.yaml")
	config := fmt.Sprintf("listen: %s\ndata: %s\nembedded:\n  kafka_listen: %s\n  kafka_partitions: %d\n", a.addr, filepath.Join(dir, "data"), a.broker, partitions)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a.command = exec.Command(program, "--config", file, "run", "--embedded")
	a.command.Stdout, a.command.Stderr = log, log
	if err := a.command.Start(); err != nil {
		return nil, fmt.Errorf("start the auditor: %w", err)
	}
	go func() {
		a.err = a.command.Wait()
		close(a.ended)
	}()
	return a, nil
}

// stop ends it cleanly, and kills it where that takes too long.
func (a *auditor) stop() error {
	_ = a.command.Process.Signal(syscall.SIGTERM) // it may be gone by now
	select {
	case <-a.ended:
		return a.err
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("the auditor did not end within %s (see %s)", stopLimit, a.log), a.command.Process.Kill())
	}
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// until waits until it is ready for something, which ready tells. It is an error if the auditor ends meanwhile.
func (a *auditor) until(ctx context.Context, what string, limit time.Duration, ready func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ok, err := ready(ctx)
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-a.ended:
			return fmt.Errorf("the auditor ended (see %s): %w", a.log, a.err)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited for %s (see %s): %w", what, a.log, ctx.Err()), err)
		}
	}
}

func (a *auditor) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.addr+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %s", path, response.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

func (a *auditor) ready(ctx context.Context) (bool, error) {
	_, err := a.get(ctx, "/readyz")
	return err == nil, err
}

// reached gives a check whether the rules have read every partition up to its end.
func (a *auditor) reached(ends map[int32]int64) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		text, err := a.get(ctx, "/api/v1/status")
		if err != nil {
			return false, err
		}
		var status struct {
			Partitions []struct {
				Topic     string
				Partition int32
				Judged    int64 `json:"judged_offset"`
			}
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return false, err
		}
		judged := make(map[int32]int64)
		for _, p := range status.Partitions {
			judged[p.Partition] = p.Judged
		}
		for partition, end := range ends {
			if judged[partition] < end {
				return false, fmt.Errorf("partition %d is judged to %d of %d", partition, judged[partition], end)
			}
		}
		return true, nil
	}
}

// settled gives a check whether a look that began after a moment left nothing to be judged.
func (a *auditor) settled(after time.Time) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		text, err := a.get(ctx, "/metrics")
		if err != nil {
			return false, err
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			value, is := strings.CutPrefix(lines.Text(), "auditor_rules_judged_time_seconds ")
			if !is {
				continue
			}
			at, err := strconv.ParseFloat(value, 64)
			return at > float64(after.UnixMicro())/1e6, err
		}
		return false, errors.New("no metric tells when all was judged")
	}
}

// findings reads all of them.
func (a *auditor) findings(ctx context.Context) ([]found, error) {
	var all []found
	for cursor := ""; ; {
		text, err := a.get(ctx, "/api/v1/findings?"+url.Values{"limit": {"500"}, "sort": {"oldest"}, "cursor": {cursor}}.Encode())
		if err != nil {
			return nil, err
		}
		var page struct {
			Items []json.RawMessage
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			f, err := parseFound(item)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}

// events reads those of a key, or of a task where there is no key.
func (a *auditor) events(namespace, key, taskID string) ([]event.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	query := url.Values{"namespace": {namespace}, "business_key": {key}, "limit": {"500"}}
	if key == "" || key == taskID {
		query = url.Values{"task_id": {taskID}, "limit": {"500"}}
	}
	text, err := a.get(ctx, "/api/v1/events?"+query.Encode())
	if err != nil {
		return nil, err
	}
	var page struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{MaxSkew: 100 * 365 * 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	var all []event.Event
	for _, item := range page.Items {
		events, _ := decoder.Decode(event.Record{Value: item, Time: time.Now()})
		all = append(all, events...)
	}
	return all, nil
}
