package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// table is Markdown, by the name that docs/scaling.md has it under.
type table struct{ name, text string }

type rows struct{ strings.Builder }

func (r *rows) add(cells ...string) { fmt.Fprintf(r, "| %s |\n", strings.Join(cells, " | ")) }

func (r *rows) head(cells ...string) {
	r.add(cells...)
	r.WriteString("|" + strings.Repeat("---|", len(cells)) + "\n")
}

// variants are ways to set the program.
var variants = []struct {
	name   string
	change func(in *inputs)
}{
	{"as it is", func(*inputs) {}},
	{"larger batches", func(in *inputs) { in.maxWait, in.maxMiB, in.maxRows, in.memory = 10, 64, 200_000, 1024 }},
	{"larger batches, 30 days", func(in *inputs) {
		in.maxWait, in.maxMiB, in.maxRows, in.memory, in.retention = 10, 64, 200_000, 1024, min(in.retention, 30)
	}},
}

// page gives all tables that docs/scaling.md holds.
func (in *inputs) page(rates []float64) []table {
	return []table{
		{"answer", in.answer(rates)},
		{"strain", in.strained(rates)},
		{"bears", in.limits()},
		{"outage", in.outageTable(rates)},
		{"utilisation", in.utilisations(rates[0])},
		{"inputs", in.inputTable()},
	}
}

func (in *inputs) answer(rates []float64) string {
	var t rows
	var plans []plan
	header := []string{"events a second"}
	for _, r := range rates {
		plans = append(plans, in.plan(r))
		header = append(header, count(r))
	}
	t.head(header...)
	row := func(name string, of func(p *plan) string) {
		cells := []string{name}
		for i := range plans {
			cells = append(cells, of(&plans[i]))
		}
		t.add(cells...)
	}
	row("partitions", func(p *plan) string { return count(float64(p.partitions)) })
	row("ingest: processes", func(p *plan) string { return count(float64(p.processes)) })
	row("ingest: cores", func(p *plan) string { return short(p.ingestCores) })
	row("ingest: memory", func(p *plan) string { return size(float64(p.processes)*p.processMiB*mib, 1024) })
	row("batches a second, rows of each", func(p *plan) string { return short(p.batches) + ", " + count(p.rows) })
	row("ClickHouse: shards × replicas", func(p *plan) string { return fmt.Sprintf("%d × %s", p.shards, short(in.replicas)) })
	row("ClickHouse: cores", func(p *plan) string { return short(p.engineCores) })
	row("of these, for each batch whatever is in it", func(p *plan) string { return percent(p.smallShare) })
	row("ClickHouse: cores a server", func(p *plan) string { return short(p.engineCores / in.replicas / float64(p.shards)) })
	row("disk a day, `events`", func(p *plan) string { return size(p.dayEvents, 1000) })
	row("disk a day, all tables", func(p *plan) string { return size(p.dayAll, 1000) })
	row("disk once full, one replica", func(p *plan) string { return size(p.kept, 1000) })
	row("Kafka: brokers", func(p *plan) string { return count(float64(p.brokers)) })
	row("Kafka: cores to be read", func(p *plan) string { return short(p.brokerCores) })
	row("Kafka: log a day, one copy", func(p *plan) string { return size(p.kafkaDay, 1000) })
	row("Kafka: log once full, all copies", func(p *plan) string { return size(p.kafkaKept*in.kafkaCopies, 1000) })
	row("network, Kafka to ingest", func(p *plan) string { return size(p.fromKafka, 1000) + "/s" })
	row("network, ingest to ClickHouse", func(p *plan) string { return size(p.toStore, 1000) + "/s" })
	row("Keeper: writes a second", func(p *plan) string { return count(p.keeper) })
	row("a look of the rules", func(p *plan) string {
		if p.look == 0 {
			return "too slow"
		}
		return span(p.look)
	})
	row("from Kafka to the store", func(p *plan) string { return short(p.age) + " s" })
	return t.String()
}

func (in *inputs) strained(rates []float64) string {
	var t rows
	t.head("events/s", "settings", "shards", "rows of a part", "ClickHouse: cores", "merges", "tokens", "Keeper", "rules",
		"gives way first")
	for _, r := range rates {
		for _, v := range variants {
			changed := *in
			v.change(&changed)
			p := changed.plan(r)
			first := "nothing; " + p.first() + " are next"
			cells := []string{count(r), v.name, count(float64(p.shards)), count(p.partRows), short(p.engineCores)}
			for _, name := range weak {
				load := short(p.strain[name])
				if p.strain[name] > 1 {
					load, first = "**"+load+"**", p.first()
				}
				cells = append(cells, load)
			}
			t.add(append(cells, first)...)
		}
	}
	return t.String()
}

func (in *inputs) limits() string {
	var t rows
	header := []string{"gives way at, events/s"}
	for _, v := range variants {
		header = append(header, v.name)
	}
	t.head(header...)
	for _, name := range weak {
		cells := []string{name}
		for _, v := range variants {
			changed := *in
			v.change(&changed)
			cells = append(cells, about(changed.bears(name)))
		}
		t.add(cells...)
	}
	return t.String()
}

func (in *inputs) outageTable(rates []float64) string {
	var t rows
	t.head("events/s", "what happens", "lag, at most", "an event waits, at most", "caught up after", "a process holds")
	for _, r := range rates {
		p := in.plan(r)
		for _, o := range in.outages(&p) {
			out := o.run(nil)
			t.add(count(r), o.name, about(out.peak), span(out.oldest), after(out), size(out.held, 1024))
		}
	}
	return t.String()
}

// utilisations plays the outage with more or less bought.
func (in *inputs) utilisations(rate float64) string {
	var t rows
	t.head("in use at the usual load", "caught up after", "cores, beside those at a half")
	for _, u := range []float64{0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1} {
		changed := *in
		changed.utilisation = u
		p := changed.plan(rate)
		t.add(percent(u), after(changed.outages(&p)[0].run(nil)), short(0.5/u))
	}
	return t.String()
}

func (in *inputs) inputTable() string {
	var t rows
	t.head("flag", "value", "unit", "known", "from")
	for _, i := range in.list() {
		t.add("`--"+i.name+"`", strconv.FormatFloat(*i.to, 'f', -1, 64), i.unit, i.known, i.source)
	}
	return t.String()
}

func after(o outcome) string {
	if o.never {
		return "never"
	}
	return span(float64(o.caught))
}

// count writes a number with commas.
func count(x float64) string {
	digits := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// about writes two figures of a number.
func about(x float64) string {
	if x < 100 {
		return short(x)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return count(math.Round(x/unit) * unit)
}

// short writes a number with one or two figures that tell.
func short(x float64) string {
	if x >= 9.95 || x == math.Trunc(x) {
		return count(x)
	}
	if x >= 0.095 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 1, 64)
}

func percent(x float64) string { return count(100*x) + " %" }

// size writes bytes, in steps of 1000 or 1024.
func size(bytes, step float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	if step == 1024 {
		units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	}
	i := 0
	for bytes >= step && i < len(units)-1 {
		bytes /= step
		i++
	}
	return short(bytes) + " " + units[i]
}

// span writes seconds.
func span(seconds float64) string {
	switch {
	case seconds >= 2*day:
		return short(seconds/day) + " days"
	case seconds >= 2*3600:
		return short(seconds/3600) + " h"
	case seconds >= 120:
		return count(seconds/60) + " min"
	}
	return count(seconds) + " s"
}
