package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every rule has its page and its row in the table of rules, and its page names each field that the rule sets.
func TestRulesAreDocumented(t *testing.T) {
	readme := page(t, "README")
	table, _, _ := strings.Cut(readme, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| \\[`([a-z_]+)`\\]\\(([a-z_]+)\\.md\\) \\|").FindAllStringSubmatch(table, -1)
	var listed []string
	for _, row := range rows {
		listed = append(listed, row[1])
		if row[1] != row[2] {
			t.Errorf("%s leads to the page of %s", row[1], row[2])
		}
	}
	slices.Sort(listed)
	if want := slices.Sorted(slices.Values(Names)); !slices.Equal(listed, want) {
		t.Errorf("docs/rules/README.md lists the rules\n%v, want\n%v", listed, want)
	}
	for _, rule := range Names {
		text := page(t, rule)
		if !strings.HasPrefix(text, "# "+rule+"\n") {
			t.Errorf("docs/rules/%s.md is the page of another rule", rule)
		}
		fields := fieldsSetIn(t, rule+".go")
		if len(fields) < 3 {
			t.Errorf("%s.go sets no more than %v", rule, fields)
		}
		for _, field := range fields {
			if !strings.Contains(text, "`"+field+"`") {
				t.Errorf("docs/rules/%s.md does not tell of the field %s", rule, field)
			}
		}
	}
	for _, file := range []string{"certainty.go", "judge.go"} {
		for _, field := range fieldsSetIn(t, file) {
			if !strings.Contains(readme, "`"+field+"`") {
				t.Errorf("docs/rules/README.md does not tell of the field %s", field)
			}
		}
	}
}

// Every setting of the rules is in the table of settings, or the section that it belongs to is.
func TestSettingsOfRulesAreDocumented(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "README"), "\n## Settings")
	config := reflect.TypeFor[Config]()
	for i := range config.NumField() {
		name := config.Field(i).Tag.Get("yaml")
		if name == "-" {
			continue
		}
		if !strings.Contains(table, "| `rules."+name+"`") && !strings.Contains(table, "| `rules."+name+".") {
			t.Errorf("docs/rules/README.md does not tell of rules.%s", name)
		}
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/rules/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fieldsSetIn lists the own fields that a file of this package gives to findings: the keys of what it sets Fields to, and of
// what it sets in Fields.
func fieldsSetIn(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	add := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
			field, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			fields = append(fields, field)
		}
	}
	keys := func(e ast.Expr) {
		if literal, ok := e.(*ast.CompositeLit); ok {
			for _, element := range literal.Elts {
				add(element.(*ast.KeyValueExpr).Key)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Fields" {
				keys(n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if named(to) == "Fields" && i < len(n.Rhs) {
					keys(n.Rhs[i])
				}
				if index, ok := to.(*ast.IndexExpr); ok && named(index.X) == "Fields" {
					add(index.Index)
				}
			}
		}
		return true
	})
	return fields
}

// named is the name of the field that an expression selects, such as Fields of f.Fields.
func named(e ast.Expr) string {
	if selected, ok := e.(*ast.SelectorExpr); ok {
		return selected.Sel.Name
	}
	return ""
}
