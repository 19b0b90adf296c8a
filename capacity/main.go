// Command capacity reckons what a rate of events takes: partitions, processes, cores, memory, network and disk, what gives way
// first, and how an outage is caught up. It knows what was measured on one small machine, and says of each figure how it is known;
// no cluster was run.
//
// inputs.go holds the figures, plan.go what follows from them, outage.go a simulation of what goes wrong, second by second.
// Nothing here reads a clock or draws lots: the same inputs always give the same tables, which are those of docs/scaling.md.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// pagePath is the documentation that holds the tables, from the project's root.
const pagePath = "docs/scaling.md"

// usualRates are those of the page.
var usualRates = []float64{10_000, 100_000, 1_000_000}

func run(args []string, stdout, stderr io.Writer) error {
	var in inputs
	rates, write := usualRates, false
	flags := flag.NewFlagSet("capacity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	in.register(flags)
	flags.Func("rates", "events a second, such as 5000,20000", func(text string) (err error) {
		rates, err = parseRates(text)
		return err
	})
	flags.BoolVar(&write, "write", false, "put the tables into "+pagePath)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case write && flags.NFlag() > 1:
		return errors.New("--write takes no other flag: " + pagePath + " has the defaults, which are changed in capacity/inputs.go")
	}
	if err := in.validate(); err != nil {
		return err
	}
	tables := in.page(rates)
	if write {
		if err := writePage(pagePath, tables); err != nil {
			return err
		}
	}
	for _, t := range tables {
		fmt.Fprintf(stdout, "%s\n\n%s\n", t.name, t.text)
	}
	return in.printJSON(stdout, rates)
}

func parseRates(text string) ([]float64, error) {
	var rates []float64
	for r := range strings.SplitSeq(text, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(r), 64)
		if err != nil || !(rate >= 1 && rate <= 1e8) {
			return nil, fmt.Errorf("a rate must be from 1 to 100000000, not %q", r)
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// marks are what the table of a name stands between on the page.
func marks(name string) (begin, end string) {
	return "<!-- make scaling: " + name + " -->\n", "<!-- end -->\n"
}

// put gives the page with the tables in place of those that it has.
func put(text string, tables []table) (string, error) {
	for _, t := range tables {
		begin, end := marks(t.name)
		before, rest, ok := strings.Cut(text, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return "", fmt.Errorf("%s has no place for the table %q: %q, and then %q", pagePath, t.name, begin, end)
		}
		text = before + begin + t.text + end + after
	}
	return text, nil
}

func writePage(path string, tables []table) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := put(string(text), tables)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// printJSON writes the last line, for programs.
func (in *inputs) printJSON(w io.Writer, rates []float64) error {
	var all []map[string]any
	for _, r := range rates {
		p := in.plan(r)
		caught := -1 // never
		if out := in.outages(&p)[0].run(nil); !out.never {
			caught = out.caught
		}
		strain := map[string]float64{}
		for name, load := range p.strain {
			strain[name] = three(load)
		}
		all = append(all, map[string]any{
			"events_per_second": r, "partitions": p.partitions, "ingest_processes": p.processes, "ingest_cores": three(p.ingestCores),
			"shards": p.shards, "clickhouse_cores": three(p.engineCores), "brokers": p.brokers, "disk_bytes_per_day": p.dayAll,
			"parts_per_second": three(p.parts), "keeper_writes_per_second": three(p.keeper), "strain": strain,
			"gives_way_first": p.first(), "caught_up_seconds": caught,
		})
	}
	return json.NewEncoder(w).Encode(map[string]any{"rates": all})
}

// three cuts a figure to three decimals.
func three(x float64) float64 { return math.Round(x*1000) / 1000 }
