package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"auditor/event/finding"
)

// comparison is what two configurations find in the same past.
type comparison struct {
	nameA, nameB string
	a, b         []finding.Finding
}

// compared is one finding as both see it; nil where one does not find it.
type compared struct {
	a, b    *finding.Finding
	differs map[string][2]string // what a and b say of it, by field, where they do not say the same
}

// each pairs the findings by id, the gravest first, and counts those of which both say the same.
func (c comparison) each() (all []compared, same int) {
	ofB := make(map[string]*finding.Finding, len(c.b))
	for i := range c.b {
		ofB[c.b[i].ID] = &c.b[i]
	}
	for i := range c.a {
		one := compared{a: &c.a[i], b: ofB[c.a[i].ID]}
		delete(ofB, one.a.ID)
		if one.b != nil {
			if one.differs = differences(one.a, one.b); len(one.differs) == 0 {
				same++
				continue
			}
		}
		all = append(all, one)
	}
	for _, f := range ofB {
		all = append(all, compared{b: f})
	}
	slices.SortFunc(all, func(x, y compared) int { return gravest(x.either(), y.either()) })
	return all, same
}

func (c compared) either() finding.Finding { return *cmp.Or(c.a, c.b) }

// in says who finds it.
func (c compared) in() string {
	switch {
	case c.b == nil:
		return "A"
	case c.a == nil:
		return "B"
	}
	return "both"
}

// differences compares what two findings about the same trouble say: severity, cause, certainty, and every whole number.
func differences(a, b *finding.Finding) map[string][2]string {
	differs := map[string][2]string{}
	differ := func(name, of, with string) {
		if of != with {
			differs[name] = [2]string{of, with}
		}
	}
	differ("severity", string(a.Severity), string(b.Severity))
	differ("cause", a.Cause, b.Cause)
	differ("effects", strconv.Itoa(a.Effects), strconv.Itoa(b.Effects))
	names := map[string]bool{}
	for _, own := range []map[string]any{a.Fields, b.Fields} {
		for name, value := range own {
			number, isNumber := value.(float64)
			if isNumber && number == math.Trunc(number) || slices.Contains([]string{"kind", "phase", "certainty"}, name) {
				names[name] = true
			}
		}
	}
	text := func(value any) string {
		if value == nil {
			return ""
		}
		return fmt.Sprint(value)
	}
	for name := range names {
		differ(name, text(a.Fields[name]), text(b.Fields[name]))
	}
	return differs
}

func (c comparison) print(w io.Writer, heading string, asJSON bool) error {
	all, same := c.each()
	counts := map[string]int{}
	for _, one := range all {
		counts[one.in()]++
	}
	if asJSON {
		return c.printJSON(w, all, counts, same)
	}
	if _, err := fmt.Fprintf(w, "%s; A is %s, B is %s.\n\n", heading, c.nameA, c.nameB); err != nil {
		return err
	}
	if len(all) > 0 {
		if err := printCompared(w, all); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s found by A only, %d by B only, %d by both but not the same, %d the same. Nothing was written.\n",
		count(counts["A"], "finding"), counts["B"], counts["both"], same)
	return err
}

func printCompared(w io.Writer, all []compared) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IN\tSEVERITY\tRULE\tCAUSE\tTASK\tKEY\tFIRST SEEN\tWHAT")
	for _, one := range all {
		f := one.either()
		what := printable(f.Title)
		if one.in() == "both" {
			what = one.difference()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.in(), f.Severity, f.Rule, orDash(cause(f)), orDash(f.Task),
			orDash(key(f)), f.FirstSeen.UTC().Format("2006-01-02 15:04:05Z"), what)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// difference is what A says and what B says.
func (c compared) difference() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.differs)) {
		d := c.differs[name]
		parts = append(parts, fmt.Sprintf("%s: %s in A, %s in B", printable(name), orDash(d[0]), orDash(d[1])))
	}
	return strings.Join(parts, "; ")
}

// printJSON prints one object a finding that is not the same in both, and then one that counts.
func (c comparison) printJSON(w io.Writer, all []compared, counts map[string]int, same int) error {
	encoder := json.NewEncoder(w)
	for _, one := range all {
		line := struct {
			In      string               `json:"in"`
			Differs map[string][2]string `json:"differs,omitempty"`
			A       *finding.Finding     `json:"a,omitempty"`
			B       *finding.Finding     `json:"b,omitempty"`
		}{strings.ToLower(one.in()), one.differs, one.a, one.b}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return encoder.Encode(struct {
		A     string `json:"config_a"`
		B     string `json:"config_b"`
		OnlyA int    `json:"only_a"`
		OnlyB int    `json:"only_b"`
		Both  int    `json:"differ"`
		Same  int    `json:"same"`
	}{c.nameA, c.nameB, counts["A"], counts["B"], counts["both"], same})
}
