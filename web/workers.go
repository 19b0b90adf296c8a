package web

import (
	"context"
	"time"
)

// workersView is one row a worker.
type workersView struct {
	Sentence []phrase
	Rows     []workerRow
	Empty    string
}

type workerRow struct {
	Name      string
	Namespace string
	Processes int
	First     when
	Last      when
	State     string
	Tone      string
}

const (
	mostWorkers = 500
	silentAfter = 2 * time.Minute // a worker not heard of for so long is called silent
)

func (s *Server) workersPage(ctx context.Context, _ request) (document, error) {
	workers, err := s.store.Workers(ctx, mostWorkers)
	if err != nil {
		return document{}, err
	}
	v := workersView{Empty: "No worker has been heard of."}
	heard, lost := 0, 0
	for _, w := range workers {
		row := workerRow{Name: w.Name, Namespace: w.Namespace, Processes: w.Processes, First: s.when(w.First), Last: s.when(w.Last), State: "heard of"}
		switch {
		case !w.Lost.IsZero() && !w.Lost.Before(w.Last):
			row.State, row.Tone = "lost", "warn"
			lost++
		case s.now().Sub(w.Last) > silentAfter:
			row.State, row.Tone = "silent", "quiet"
		default:
			heard++
		}
		v.Rows = append(v.Rows, row)
	}
	v.Sentence = []phrase{{Text: plural(heard, "worker") + " heard of in the last " + rough(silentAfter) + ", " +
		number(len(v.Rows)-heard-lost) + " silent, " + number(lost) + " reported lost."}}
	return document{Title: "Workers", Section: "workers", Page: "workers", View: v}, nil
}
