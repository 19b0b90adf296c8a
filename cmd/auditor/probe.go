package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

type probeCommand struct {
	URL string `arg:"" default:"http://127.0.0.1:8080/readyz" help:"What to ask for (${default})."`
}

// Run asks for a URL and fails unless the answer is 200. It is for images that have no shell.
func (p probeCommand) Run(env *environment) error {
	ctx, cancel := context.WithTimeout(env.ctx, 4*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return usageError{err}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", answer.Status, printable(string(text)))
}
