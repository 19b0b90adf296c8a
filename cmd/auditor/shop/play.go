package shop

import (
	"context"
	"time"

	"auditor/event"
)

// Play tells each of the shop's events at its time, until ctx ends or tell fails. It returns nil when ctx ends.
func Play(ctx context.Context, s *Shop, tell func(context.Context, event.Event) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e := s.Next()
		timer.Reset(time.Until(e.Time))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := tell(ctx, e); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}
