package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"auditor/event/review"
)

// verdictWord is how a person is told of a verdict.
var verdictWord = map[review.Verdict]string{review.Good: "good", review.Bad: "bad", review.NotSeen: "not seen enough"}

// printReviewTable tells of all tasks, a line each.
func printReviewTable(w io.Writer, reviews []review.Review) error {
	if len(reviews) == 0 {
		_, err := fmt.Fprintln(w, "No task was seen.")
		return err
	}
	if _, err := fmt.Fprintf(w, "%s\n\n", sampleText(reviews[0].Sample)); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TASK\tNAMESPACE\tBAD\tNOT SEEN\tGOOD\tIDS\tRETRIES PER FIRST RUN\tP50\tP95\tLONGEST\tBAD ARE")
	for _, r := range reviews {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%.2f\t%s\t%s\t%s\t%s\n", orDash(r.Task), orDash(r.Namespace), r.Count(review.Bad), r.Count(review.NotSeen),
			r.Count(review.Good), r.IDs, r.PerFirstRun(), tookText(r.Took, r.Took.P50), tookText(r.Took, r.Took.P95), tookText(r.Took, r.Took.Max), orDash(badOf(&r)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s. With a task's name: each question, and why.\n", count(len(reviews), "task"))
	return err
}

// badOf names the questions whose answer is bad.
func badOf(r *review.Review) string {
	var names []string
	for _, a := range r.Answers {
		if a.Verdict == review.Bad {
			names = append(names, string(a.Question))
		}
	}
	return strings.Join(names, ", ")
}

func sampleText(s review.Sample) string {
	on := "on every key"
	if s.OneIn > 1 {
		on = "on 1 key in " + grouped(s.OneIn)
	}
	since := ""
	if !s.Since.IsZero() {
		since = " since " + s.Since.UTC().Format("2006-01-02 15:04:05Z")
	}
	return fmt.Sprintf("Measured %s, %s%s.", on, count(s.Events, "event"), since)
}

func tookText(l review.Lengths, seconds float64) string {
	if l.Count == 0 {
		return "-"
	}
	return review.Length(seconds)
}

// printReviews tells of a task in full, once for each namespace that has it.
func printReviews(w io.Writer, reviews []review.Review) error {
	for i, r := range reviews {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := printReview(w, &r); err != nil {
			return err
		}
	}
	return nil
}

func printReview(w io.Writer, r *review.Review) error {
	in := ""
	if r.Namespace != "" {
		in = " in " + printable(r.Namespace)
	}
	fmt.Fprintf(w, "%s%s: %d bad, %d good, %d not seen enough. %s\n\n", orDash(r.Task), in, r.Count(review.Bad), r.Count(review.Good), r.Count(review.NotSeen), sampleText(r.Sample))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, a := range r.Answers {
		fmt.Fprintf(table, "%s\t%s\t%s\n", a.Asks, verdictWord[a.Verdict], printable(a.Says))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printLengths(w, r)
	printErrors(w, r.Errors)
	return printGaps(w, r.Course)
}

func printLengths(w io.Writer, r *review.Review) {
	if r.Took.Count == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nSECONDS\tCOUNT\tP50\tP95\tP99\tLONGEST")
	for _, l := range []struct {
		name string
		review.Lengths
	}{{"run", r.Took}, {"held", r.Held}} {
		if l.Count > 0 {
			fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\n", l.name, l.Count, l.P50, l.P95, l.P99, l.Max)
		}
	}
	for _, t := range r.Timeouts {
		fmt.Fprintf(table, "%s\t%d over\t\t\t\t%.0f\n", printable(t.Name), t.Over, t.After.Seconds())
	}
	table.Flush()
}

func printErrors(w io.Writer, errors []review.Error) {
	if len(errors) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nRETRIED ON\tIDS\tHEALED\tGAVE UP\tTOLD PERMANENT")
	for _, e := range errors {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", orDash(e.Type), e.IDs, e.Healed, e.GaveUp, e.Permanent)
	}
	table.Flush()
}

// printGaps draws how long after retries the next attempts came.
func printGaps(w io.Writer, course []review.Bucket) error {
	if len(course) == 0 {
		return nil
	}
	const width = 40
	most := 0
	for _, b := range course {
		most = max(most, b.Count)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nRETRIED AFTER\tTIMES\t")
	for _, b := range course {
		fmt.Fprintf(table, "%s to %s\t%d\t%s\n", review.Length(b.From), review.Length(b.To), b.Count, strings.Repeat("#", max(b.Count*width/most, 1)))
	}
	return table.Flush()
}
