package queries

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// objectKind tells what a name of the schema is.
type objectKind int

const (
	aTable objectKind = iota + 1
	aView
	aMaterializedView
)

// schemaObjects names everything that the migrations make.
var schemaObjects = sync.OnceValues(func() (map[string]objectKind, error) {
	migrations, err := loadMigrations()
	if err != nil {
		return nil, err
	}
	objects := map[string]objectKind{"schema_migrations": aTable}
	for _, m := range migrations {
		for _, text := range m.statements {
			all, err := tokens(text)
			if err != nil {
				return nil, fmt.Errorf("migration %s: %w", m.name, err)
			}
			d := &ddl{text: text, all: all}
			if !d.take("CREATE") {
				continue
			}
			d.take("OR", "REPLACE")
			kind := objectKind(0)
			switch {
			case d.take("TABLE"):
				kind = aTable
			case d.take("VIEW"):
				kind = aView
			case d.take("MATERIALIZED", "VIEW"):
				kind = aMaterializedView
			default:
				continue
			}
			d.take("IF", "NOT", "EXISTS")
			objects[d.next().text] = kind
		}
	}
	return objects, nil
})

// ddl turns one statement of a migration into what it is on a cluster. It knows the statements that migrations have been
// made of, refuses everything else, and changes nothing that it does not have to, so that a migration is on a cluster as a
// whole or not at all.
type ddl struct {
	layout  layout
	objects map[string]objectKind
	text    string
	all     []token
	at      int
	edits   []edit
}

func newDDL(l layout, objects map[string]objectKind, text string) (*ddl, error) {
	all, err := tokens(text)
	return &ddl{layout: l, objects: objects, text: text, all: all}, err
}

// end stands for what comes after the last token.
var endOfText = token{kind: mark}

func (d *ddl) peek() token {
	if d.at >= len(d.all) {
		return endOfText
	}
	return d.all[d.at]
}

func (d *ddl) next() token {
	t := d.peek()
	d.at++
	return t
}

func (d *ddl) ended() bool { return d.at >= len(d.all) }

// take goes past the keywords or marks if they come next.
func (d *ddl) take(texts ...string) bool {
	if d.at+len(texts) > len(d.all) {
		return false
	}
	for i, text := range texts {
		if !d.all[d.at+i].is(text) {
			return false
		}
	}
	d.at += len(texts)
	return true
}

// want is take for what has to come.
func (d *ddl) want(texts ...string) error {
	if !d.take(texts...) {
		return fmt.Errorf("%s is expected, not %q,", strings.Join(texts, " "), d.peek().text)
	}
	return nil
}

// name goes past the name of an object of one of the kinds, which must not be qualified.
func (d *ddl) name(kinds ...objectKind) (token, error) {
	t := d.next()
	switch {
	case t.kind != word || d.peek().is("."):
		return t, fmt.Errorf("a plain name is expected, not %q,", t.text)
	case !slices.Contains(kinds, d.objects[t.text]):
		return t, fmt.Errorf("%q is not known here", t.text)
	case d.objects[t.text] == aTable && shardedBy[t.text] == "":
		return t, fmt.Errorf("shardedBy does not say where the rows of %s lie", t.text)
	}
	return t, nil
}

// put notes that a token becomes another text.
func (d *ddl) put(t token, text string) { d.edits = append(d.edits, edit{t.start, t.end, text}) }

// after notes that text follows a token.
func (d *ddl) after(t token, text string) { d.edits = append(d.edits, edit{t.end, t.end, text}) }

func (d *ddl) result() string { return edited(d.text, d.edits) }

func (d *ddl) statement() ([]string, error) {
	if len(d.all) == 0 {
		return nil, errors.New("there is nothing")
	}
	switch {
	case d.take("CREATE", "TABLE", "IF", "NOT", "EXISTS"):
		return d.createTable()
	case d.take("CREATE", "MATERIALIZED", "VIEW", "IF", "NOT", "EXISTS"):
		return d.createMaterializedView()
	case d.take("CREATE", "VIEW", "IF", "NOT", "EXISTS"), d.take("CREATE", "OR", "REPLACE", "VIEW"):
		return d.createView()
	case d.take("DROP", "TABLE", "IF", "EXISTS"):
		return d.drop(aTable)
	case d.take("DROP", "VIEW", "IF", "EXISTS"):
		return d.drop(aView, aMaterializedView)
	case d.take("ALTER", "TABLE"):
		return d.alter()
	case d.take("INSERT", "INTO"):
		return d.insertSelect()
	}
	return nil, fmt.Errorf("%s cannot be told on a cluster, or lacks IF [NOT] EXISTS,", strings.ToUpper(d.peek().text))
}

// createTable makes the table that holds a shard's rows, and the one that leads to all of them.
func (d *ddl) createTable() ([]string, error) {
	name, err := d.name(aTable)
	if err != nil {
		return nil, err
	}
	d.put(name, d.layout.qualified(d.layout.here(name.text))+d.layout.on())
	if err := d.want("("); err != nil {
		return nil, err
	}
	if err := d.skipTo(")"); err != nil {
		return nil, err
	}
	if err := d.want("ENGINE", "="); err != nil {
		return nil, err
	}
	if err := d.engine(); err != nil {
		return nil, err
	}
	if err := d.settings(); err != nil {
		return nil, err
	}
	distributed := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s AS %s\nENGINE = Distributed(%s, '%s', '%s', %s)",
		d.layout.qualified(name.text), d.layout.on(), d.layout.qualified(d.layout.here(name.text)),
		d.layout.clusterText(), d.layout.database, d.layout.here(name.text), shardedBy[name.text])
	return []string{d.result(), distributed}, nil
}

// engines of which there is a Replicated kind that takes the same arguments.
var engines = []string{"MergeTree", "ReplacingMergeTree", "AggregatingMergeTree", "SummingMergeTree", "CollapsingMergeTree", "VersionedCollapsingMergeTree"}

func (d *ddl) engine() error {
	engine := d.next()
	if engine.kind != word || !slices.Contains(engines, engine.text) {
		return fmt.Errorf("%q has no Replicated kind that is known here", engine.text)
	}
	open := d.peek()
	var own []token // the engine's own arguments
	if d.take("(") {
		from := d.at
		if err := d.skipTo(")"); err != nil {
			return err
		}
		own = d.all[from : d.at-1]
	}
	if !d.layout.replicated {
		return nil
	}
	d.put(engine, "Replicated"+engine.text)
	if !d.layout.arguments {
		return nil
	}
	arguments := "'" + d.layout.path + "', '" + d.layout.replica + "'"
	switch {
	case !open.is("("):
		d.after(engine, "("+arguments+")")
	case len(own) == 0:
		d.after(open, arguments)
	default:
		d.after(open, arguments+", ")
	}
	return nil
}

// clauses of CREATE TABLE that stay as they are.
var clauses = []string{"PARTITION", "PRIMARY", "ORDER", "SAMPLE", "TTL", "COMMENT"}

// settings goes through the rest of CREATE TABLE.
func (d *ddl) settings() error {
	if d.ended() {
		return nil
	}
	if t := d.peek(); !t.is("SETTINGS") && !slices.ContainsFunc(clauses, t.is) {
		return fmt.Errorf("%q is not expected", t.text)
	}
	for depth := 0; !d.ended(); {
		switch t := d.next(); {
		case t.is("("), t.is("["):
			depth++
		case t.is(")"), t.is("]"):
			depth--
		case t.is("AS"):
			return errors.New("AS is not expected")
		case depth == 0 && t.is("SETTINGS"):
			return d.setting()
		}
	}
	return nil
}

// setting goes through a list of settings that ends the statement, or an action of it.
func (d *ddl) setting() error {
	for {
		name := d.next()
		if name.kind != word {
			return fmt.Errorf("a setting is expected, not %q,", name.text)
		}
		if err := d.want("="); err != nil {
			return err
		}
		value := d.next()
		if value.kind != word && value.kind != quotedText {
			return fmt.Errorf("a value is expected for %s, not %q,", name.text, value.text)
		}
		switch {
		case name.text == "non_replicated_deduplication_window" && d.layout.replicated:
			d.put(name, "replicated_deduplication_window")
			d.after(value, fmt.Sprintf(", replicated_deduplication_window_seconds = %d", windowSeconds))
		case strings.HasPrefix(name.text, "replicated_") || strings.HasPrefix(name.text, "non_replicated_"):
			if d.layout.replicated {
				return fmt.Errorf("the setting %s is not expected", name.text)
			}
		}
		if d.ended() {
			return nil
		}
		if err := d.want(","); err != nil {
			return err
		}
	}
}

// createMaterializedView makes a view that reads the rows which one shard takes, and fills a table of the same shard.
func (d *ddl) createMaterializedView() ([]string, error) {
	name, err := d.name(aMaterializedView)
	if err != nil {
		return nil, err
	}
	d.put(name, d.layout.qualified(name.text)+d.layout.on())
	if err := d.want("TO"); err != nil {
		return nil, err
	}
	target, err := d.name(aTable)
	if err != nil {
		return nil, err
	}
	d.put(target, d.layout.qualified(d.layout.here(target.text)))
	if err := d.want("AS"); err != nil {
		return nil, err
	}
	if err := d.fed(); err != nil {
		return nil, err
	}
	return []string{d.result()}, nil
}

// fed goes through the SELECT of a materialized view. One that joined would see its shard's part of the other table only.
func (d *ddl) fed() error {
	read, err := d.selects(func(name string) string { return d.layout.here(name) })
	if err != nil {
		return err
	}
	if len(read) != 1 || d.objects[read[0]] != aTable {
		return fmt.Errorf("a materialized view must read one table, not %s,", strings.Join(read, " and "))
	}
	return nil
}

func (d *ddl) createView() ([]string, error) {
	name, err := d.name(aView)
	if err != nil {
		return nil, err
	}
	d.put(name, d.layout.qualified(name.text)+d.layout.on())
	if err := d.want("AS"); err != nil {
		return nil, err
	}
	if _, err := d.selects(func(name string) string { return name }); err != nil {
		return nil, err
	}
	return []string{d.result()}, nil
}

// byName are functions that name a table in a way that selects does not see.
var byName = []string{"dictGet", "dictHas", "joinGet", "remote", "cluster", "merge", "view", "numbers"}

// selects goes through a SELECT to the end, and puts a qualified name in place of each table. It gives their names as they
// were, once each.
func (d *ddl) selects(name func(string) string) (read []string, err error) {
	if !d.peek().is("SELECT") && !d.peek().is("WITH") {
		return nil, fmt.Errorf("SELECT is expected, not %q,", d.peek().text)
	}
	within := d.subqueries()
	for !d.ended() {
		t := d.next()
		follows := d.peek()
		switch {
		case t.kind == parameter:
			return nil, errors.New("a parameter is not expected")
		case t.kind == word && follows.is("(") && slices.ContainsFunc(byName, func(f string) bool { return strings.HasPrefix(t.text, f) }):
			return nil, fmt.Errorf("%s is not expected", t.text)
		case t.is("IN") && !follows.is("("), t.is("GLOBAL"):
			return nil, fmt.Errorf("%s %s is not expected", t.text, follows.text)
		case !t.is("FROM") && !t.is("JOIN"):
			continue
		case follows.is("("):
			continue
		case slices.Contains(within, follows.text):
			d.next()
			continue
		}
		table, err := d.name(aTable, aView)
		if err != nil {
			return nil, err
		}
		d.put(table, d.layout.qualified(name(table.text)))
		if !slices.Contains(read, table.text) {
			read = append(read, table.text)
		}
		if d.listed() {
			return nil, errors.New("a list of tables is not expected")
		}
	}
	return read, nil
}

// subqueries are the names that WITH gives to subqueries.
func (d *ddl) subqueries() []string {
	var names []string
	for i := d.at; i+3 < len(d.all); i++ {
		if d.all[i].kind == word && d.all[i+1].is("AS") && d.all[i+2].is("(") && (d.all[i+3].is("SELECT") || d.all[i+3].is("WITH")) {
			names = append(names, d.all[i].text)
		}
	}
	return names
}

// listed reports whether a comma follows the table that was just named, its alias aside.
func (d *ddl) listed() bool {
	i := d.at
	for i < len(d.all) && d.all[i].kind == word && !slices.ContainsFunc(afterFrom, d.all[i].is) {
		i++
	}
	return i < len(d.all) && d.all[i].is(",")
}

// afterFrom are the keywords that end what FROM names.
var afterFrom = []string{"WHERE", "PREWHERE", "GROUP", "ORDER", "LIMIT", "JOIN", "UNION", "SETTINGS", "HAVING", "WINDOW", "ON", "USING"}

func (d *ddl) drop(kinds ...objectKind) ([]string, error) {
	name, err := d.name(kinds...)
	if err != nil {
		return nil, err
	}
	if !d.ended() {
		return nil, fmt.Errorf("%q is not expected", d.peek().text)
	}
	// SYNC: the path in Keeper would stay for minutes, and keep a table of the same name from being made.
	drop := func(name string) string {
		return edited(d.text, []edit{{d.all[len(d.all)-1].start, len(d.text), d.layout.qualified(name) + d.layout.on() + " SYNC"}})
	}
	if kinds[0] != aTable {
		return []string{drop(name.text)}, nil
	}
	return []string{drop(name.text), drop(d.layout.here(name.text))}, nil
}

// insertSelect fills tables of all shards from tables of all shards.
func (d *ddl) insertSelect() ([]string, error) {
	name, err := d.name(aTable)
	if err != nil {
		return nil, err
	}
	d.put(name, d.layout.qualified(name.text))
	if d.take("(") {
		if err := d.skipTo(")"); err != nil {
			return nil, err
		}
	}
	if _, err := d.selects(func(name string) string { return name }); err != nil {
		return nil, err
	}
	return []string{d.result()}, nil
}

// skipTo goes past the mark that closes what was opened.
func (d *ddl) skipTo(closing string) error {
	for depth := 1; !d.ended(); {
		switch t := d.next(); {
		case t.is("("), t.is("["):
			depth++
		case t.is(")"), t.is("]"):
			if depth--; depth == 0 {
				if !t.is(closing) {
					return fmt.Errorf("%s is expected, not %s,", closing, t.text)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("%s is missing", closing)
}
