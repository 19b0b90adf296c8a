package shop

import (
	"context"
	"time"

	"auditor/event"
)

// lastWords is how long the end of a shop may take.
const lastWords = 5 * time.Second

// Play tells each of the shop's events at its time, until ctx ends or tell fails. When ctx ends it closes the shop and
// tells at once what is left to say, so that no task stays without an end for no other reason than that the play is over.
func Play(ctx context.Context, s *Shop, tell func(context.Context, event.Event) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e := s.Next()
		timer.Reset(time.Until(e.Time))
		select {
		case <-ctx.Done():
			return tellRest(append([]event.Event{e}, s.Close()...), tell)
		case <-timer.C:
		}
		if err := tell(ctx, e); err != nil {
			if ctx.Err() != nil {
				return tellRest(append([]event.Event{e}, s.Close()...), tell)
			}
			return err
		}
	}
}

func tellRest(events []event.Event, tell func(context.Context, event.Event) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	for _, e := range events {
		if err := tell(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
