package review

import "encoding/json"

// MarshalJSON writes a review as the API and the command give it.
func (r Review) MarshalJSON() ([]byte, error) {
	type timeout struct {
		Name  string  `json:"name"`
		After float64 `json:"after_seconds"`
		Over  int     `json:"ids_over"`
		Again int     `json:"ids_over_delivered_again"`
	}
	timeouts := make([]timeout, 0, len(r.Timeouts))
	for _, t := range r.Timeouts {
		timeouts = append(timeouts, timeout{t.Name, t.After.Seconds(), t.Over, t.Again})
	}
	return json.Marshal(struct {
		Task      string          `json:"task"`
		Namespace string          `json:"namespace"`
		Sample    Sample          `json:"sample"`
		Verdicts  map[Verdict]int `json:"verdicts"`
		Answers   []Answer        `json:"answers"`
		IDs       int             `json:"task_ids"`
		Runs      int             `json:"runs"`
		FirstRuns int             `json:"first_runs"`
		Retries   int             `json:"retries"`
		PerFirst  float64         `json:"retries_per_first_run"`
		Took      Lengths         `json:"run_seconds"`
		Held      Lengths         `json:"held_seconds"`
		Timeouts  []timeout       `json:"timeouts"`
		Errors    []Error         `json:"errors"`
		Gaps      []Gap           `json:"retry_gaps"`
		Course    []Bucket        `json:"retry_gap_histogram"`
	}{
		r.Task, r.Namespace, r.Sample, map[Verdict]int{Good: r.Count(Good), Bad: r.Count(Bad), NotSeen: r.Count(NotSeen)}, r.Answers,
		r.IDs, r.Runs, r.FirstRuns, r.Retries, rounded(r.PerFirstRun()), r.Took, r.Held, timeouts,
		append([]Error{}, r.Errors...), append([]Gap{}, r.Gaps...), append([]Bucket{}, r.Course...),
	})
}
