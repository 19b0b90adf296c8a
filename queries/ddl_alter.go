package queries

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// action is one action of ALTER TABLE: its tokens, the comma after it left out.
type action []token

func (a action) begins(texts ...string) bool {
	if len(a) < len(texts) {
		return false
	}
	for i, text := range texts {
		if !a[i].is(text) {
			return false
		}
	}
	return true
}

// inBoth are the actions that change what columns there are, which the Distributed table has to know as well.
var inBoth = [][]string{{"ADD", "COLUMN"}, {"DROP", "COLUMN"}, {"RENAME", "COLUMN"}, {"COMMENT", "COLUMN"}, {"MODIFY", "COLUMN"}, {"ALTER", "COLUMN"}}

// inLocal are the actions about how rows are kept, or about the rows themselves.
var inLocal = [][]string{
	{"ADD", "INDEX"}, {"DROP", "INDEX"}, {"CLEAR", "INDEX"}, {"MATERIALIZE", "INDEX"},
	{"ADD", "PROJECTION"}, {"DROP", "PROJECTION"}, {"CLEAR", "PROJECTION"}, {"MATERIALIZE", "PROJECTION"},
	{"ADD", "CONSTRAINT"}, {"DROP", "CONSTRAINT"}, {"CLEAR", "COLUMN"}, {"MATERIALIZE", "COLUMN"},
	{"MODIFY", "ORDER", "BY"}, {"MODIFY", "TTL"}, {"REMOVE", "TTL"}, {"MATERIALIZE", "TTL"},
	{"MODIFY", "SETTING"}, {"RESET", "SETTING"}, {"UPDATE"}, {"DELETE"},
}

// alter changes the tables that hold the rows and, where columns change, the one that leads to them.
func (d *ddl) alter() ([]string, error) {
	name, err := d.name(aTable, aMaterializedView)
	if err != nil {
		return nil, err
	}
	if d.objects[name.text] == aMaterializedView {
		return d.alterView(name)
	}
	actions, err := d.actions()
	if err != nil {
		return nil, err
	}
	both, local := 0, 0
	for _, a := range actions {
		switch {
		case a.begins("MODIFY", "COLUMN") && slices.ContainsFunc(a, func(t token) bool { return t.is("REMOVE") }):
			local++ // of a codec or TTL, which the Distributed table need not have
		case slices.ContainsFunc(inBoth, func(begin []string) bool { return a.begins(begin...) }):
			both++
		case slices.ContainsFunc(inLocal, func(begin []string) bool { return a.begins(begin...) }):
			local++
			if a.begins("MODIFY", "SETTING") {
				if err := d.modifySetting(a); err != nil {
					return nil, err
				}
			}
		default:
			return nil, fmt.Errorf("ALTER TABLE ... %s is not known here", head(a))
		}
	}
	if both > 0 && local > 0 {
		return nil, errors.New("changes of columns and others must be statements of their own,")
	}
	if slices.ContainsFunc(d.all, func(t token) bool { return t.is("FROM") || t.is("SELECT") }) && !actions[0].begins("MODIFY", "COLUMN") {
		return nil, errors.New("a subquery is not expected")
	}
	here := d.named(name, d.layout.here(name.text))
	if both == 0 {
		return []string{here}, nil
	}
	everywhere := d.named(name, name.text)
	if actions[0].begins("DROP") { // nothing may ask for a column that is gone
		return []string{everywhere, here}, nil
	}
	return []string{here, everywhere}, nil
}

// alterView gives a materialized view another SELECT.
func (d *ddl) alterView(name token) ([]string, error) {
	if err := d.want("MODIFY", "QUERY"); err != nil {
		return nil, err
	}
	if err := d.fed(); err != nil {
		return nil, err
	}
	return []string{d.named(name, name.text)}, nil
}

// named is the statement about another table, with what else was edited.
func (d *ddl) named(at token, name string) string {
	edits := append([]edit{{at.start, at.end, d.layout.qualified(name) + d.layout.on()}}, d.edits...)
	return edited(d.text, edits)
}

// actions cuts the rest of ALTER TABLE at its commas. A comma in a list of settings or of updates ends no action.
func (d *ddl) actions() ([]action, error) {
	var all []action
	var one action
	depth := 0
	end := func() error {
		if len(one) == 0 {
			return errors.New("an action is missing")
		}
		if len(all) > 0 && !slices.ContainsFunc(append(inBoth, inLocal...), func(begin []string) bool { return one.begins(begin...) }) {
			last := all[len(all)-1]
			if !last.begins("UPDATE") && !last.begins("MODIFY", "SETTING") && !last.begins("RESET", "SETTING") {
				return fmt.Errorf("ALTER TABLE ... %s is not known here", head(one))
			}
			all[len(all)-1] = append(last, one...)
		} else {
			all = append(all, one)
		}
		one = nil
		return nil
	}
	for !d.ended() {
		t := d.next()
		switch {
		case t.is("("), t.is("["):
			depth++
		case t.is(")"), t.is("]"):
			depth--
		case t.is(",") && depth == 0:
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		one = append(one, t)
	}
	return all, end()
}

// modifySetting names the window of a Replicated table where that of another is set. The commas are left out of a.
func (d *ddl) modifySetting(a action) error {
	if !d.layout.replicated {
		return nil
	}
	for i := 2; i+2 < len(a); i += 3 {
		name, value := a[i], a[i+2]
		if !a[i+1].is("=") {
			return fmt.Errorf("= is expected after %s", name.text)
		}
		if name.text == "non_replicated_deduplication_window" {
			d.put(name, "replicated_deduplication_window")
			d.after(value, fmt.Sprintf(", replicated_deduplication_window_seconds = %d", windowSeconds))
		} else if strings.Contains(name.text, "replicated_") {
			return fmt.Errorf("the setting %s is not expected", name.text)
		}
	}
	return nil
}

func head(a action) string {
	var words []string
	for _, t := range a[:min(len(a), 3)] {
		words = append(words, t.text)
	}
	return strings.Join(words, " ")
}
