package main

import (
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/review"
)

type reviewCommand struct {
	storeAccess
	Task      *string  `arg:"" optional:"" help:"Name of one task, to be reviewed in full. All tasks, a line each, if not given."`
	Since     string   `placeholder:"TIME" help:"Of the events that reached Kafka then or later: RFC 3339, Unix seconds, or a length of time before now (168h)."`
	Namespace *string  `placeholder:"NAME" help:"In this namespace only."`
	File      []string `sep:"none" placeholder:"FILE" help:"Review the events of this file, with nothing else running; may be given more than once."`
	JSON      bool     `name:"json" help:"Print one JSON object a task, not a table."`
}

// reviewSpan is how far back a review looks unless told otherwise.
const reviewSpan = 7 * 24 * time.Hour

// Run reviews one task or all.
func (r reviewCommand) Run(env *environment) error {
	query := review.Query{Task: r.Task, Namespace: r.Namespace}
	var err error
	if query.Since, err = r.since(time.Now()); err != nil {
		return usageError{err}
	}
	measures, err := r.measure(env, query)
	if err != nil {
		return err
	}
	reviews := make([]review.Review, 0, len(measures))
	for _, m := range measures {
		reviews = append(reviews, review.Of(m))
	}
	slices.SortFunc(reviews, review.Compare)
	switch {
	case len(reviews) == 0 && r.Task != nil:
		return fmt.Errorf("no event of a task named %q was seen", *r.Task)
	case r.JSON:
		for _, one := range reviews {
			if err := printLine(env.stdout, one); err != nil {
				return err
			}
		}
		return nil
	case r.Task != nil:
		return printReviews(env.stdout, reviews)
	}
	return printReviewTable(env.stdout, reviews)
}

// since is the beginning of the window. Files have none: they are read whole.
func (r reviewCommand) since(now time.Time) (time.Time, error) {
	switch {
	case r.Since != "" && len(r.File) > 0:
		return time.Time{}, fmt.Errorf("--since: files are read whole, so that it goes with the store only")
	case len(r.File) > 0:
		return time.Time{}, nil
	case r.Since == "":
		return now.Add(-reviewSpan), nil
	}
	return momentBefore("--since", r.Since, now)
}

func (r reviewCommand) measure(env *environment, query review.Query) ([]review.Measure, error) {
	if len(r.File) > 0 {
		return r.measureFiles(env, query)
	}
	a, err := r.open(env)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	query.Settings = a.config.Review()
	return a.store.Review(env.ctx, query)
}

// measureFiles reads the files into an engine that is gone afterwards.
func (r reviewCommand) measureFiles(env *environment, query review.Query) ([]review.Measure, error) {
	c, err := env.load(nil, nil)
	if err != nil {
		return nil, err
	}
	decoder, err := event.NewDecoder(c.Decoder())
	if err != nil {
		return nil, err
	}
	scratch, err := openScratch(env.ctx, c)
	if err != nil {
		return nil, err
	}
	defer scratch.close()
	in := &intake{store: scratch.store, decoder: decoder, warn: env.stderr, kafkaTime: time.Now()}
	if err := in.readFiles(env.ctx, r.File, env.stdin); err != nil {
		return nil, err
	}
	if in.events == 0 {
		return nil, fmt.Errorf("no event could be read (%d rejected)", in.rejects)
	}
	query.Settings = c.Review()
	return scratch.store.Review(env.ctx, query)
}
