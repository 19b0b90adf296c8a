package event_test

import (
	"strings"
	"testing"

	"auditor/event"
)

func TestKeyTemplates(t *testing.T) {
	for template, fault := range map[string]string{
		`order:{{ arg 0 }}`:                          "",
		`{{arg 12}}-{{kwarg "order_id"}}`:            "",
		`{{ task }}/{{ arg 0 or kwarg "order_id" }}`: "",
		"{{ kwarg `it's` }}":                         "",
		``:                                           "names no argument",
		`order`:                                      "names no argument",
		`order:}}`:                                   "names no argument",
		`order:{{ arg 0`:                             "{{ without }}",
		`{{ }}`:                                      "is none of",
		`{{ arg }}`:                                  "is none of",
		`{{ arg -1 }}`:                               "is none of",
		`{{ arg 0 1 }}`:                              "is none of",
		`{{ arg 99999999999999999999 }}`:             "is none of",
		`{{ kwarg order_id }}`:                       "is none of",
		`{{ kwarg }}`:                                "is none of",
		`{{ task 1 }}`:                               "is none of",
		`{{ args 0 }}`:                               "is none of",
		`{{ arg 0 or }}`:                             "is none of",
		`{{ arg 0 }}{{ id }}`:                        "is none of",
	} {
		_, err := event.ParseKeyTemplate(template)
		if fault == "" && err != nil {
			t.Errorf("%s: %v", template, err)
		}
		if fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: error %v, want ...%s...", template, err, fault)
		}
	}
}

// A key is made only of what can be read for certain: no key is better than a wrong one.
func TestBusinessKeys(t *testing.T) {
	for _, c := range []struct {
		name         string
		template     string
		args, kwargs any
		key, why     string // why: part of business_key_error
	}{
		{"text", `order:{{ arg 0 }}`, "('order-77',)", "{}", "order:order-77", ""},
		{"number", `order:{{ arg 0 }}`, "(42,)", "{}", "order:42", ""},
		{"number below zero", `order:{{ arg 0 }}`, "(-4.5e-3, 1)", "{}", "order:-4.5e-3", ""},
		{"second", `{{ arg 1 }}`, "(None, 'b')", "{}", "b", ""},
		{"after collections", `{{ arg 2 }}`, "([1, ('x', {'a': {1, 2}})], {}, 'c')", "{}", "c", ""},
		{"list", `{{ arg 0 }}`, "['a']", "{}", "a", ""},
		{"double quotes", `{{ arg 0 }}`, `("it's",)`, "{}", "it's", ""},
		{"named", `{{ kwarg "order_id" }}`, "()", "{'x': [1], 'order_id': 'b'}", "b", ""},
		{"named, cut off later", `{{ kwarg "order_id" }}`, "()", "{'order_id': 'b', 'x': <Foo>}", "b", ""},
		{"either, by place", `{{ arg 0 or kwarg "order_id" }}`, "('a',)", "{}", "a", ""},
		{"either, by name", `{{ arg 0 or kwarg "order_id" }}`, "()", "{'order_id': 'b'}", "b", ""},
		{"either, only names told", `{{ arg 0 or kwarg "order_id" }}`, nil, "{'order_id': 'b'}", "b", ""},
		{"several", `{{ task }}/{{ arg 0 }}:{{ arg 1 }}`, "('a', 1)", "{}", "shop.settle/a:1", ""},
		{"JSON", `{{ arg 0 }}{{ kwarg "k" }}`, []any{"a\\'é", 1}, map[string]any{"k": 7}, `a\'é7`, ""},
		{"nothing told", `{{ arg 0 }}`, nil, nil, "", ""},
		{"task alone", `all:{{ task }}`, nil, nil, "all:shop.settle", ""},

		{"absent", `{{ arg 1 }}`, "('a',)", "{}", "", "arg 1: there is no such argument"},
		{"absent name", `{{ kwarg "k" }}`, "()", "{}", "", "no such argument"},
		{"absent in JSON", `{{ arg 1 }}`, []any{"a"}, nil, "", "no such argument"},
		{"absent either way", `{{ arg 1 or kwarg "k" }}`, "('a',)", nil, "", "no such argument"},
		{"name is there twice", `{{ kwarg "k" }}`, "()", "{'k': 'a', 'k': 'b'}", "", "twice"},
		{"truncated text", `{{ arg 0 }}`, "('aaaaaaaa...',)", "{}", "", "truncated"},
		{"truncated number", `{{ arg 0 }}`, "(1234...,)", "{}", "", "truncated"},
		{"truncated list", `{{ arg 1 }}`, "('a', ...)", "{}", "", "truncated"},
		{"truncated within", `{{ arg 1 }}`, "([1, ...], 'b')", "{}", "", "truncated"},
		{"truncated is not absent", `{{ arg 0 or kwarg "k" }}`, "(...)", "{'k': 'b'}", "", "truncated"},
		{"escaped text", `{{ arg 0 }}`, `('a\'b',)`, "{}", "", "cannot be read for certain"},
		{"raw backslash", `{{ arg 0 }}`, `('C:\new',)`, "{}", "", "cannot be read for certain"},
		{"raw quote", `{{ arg 0 }}`, `('O'Brien',)`, "{}", "", "cannot be read for certain"},
		{"bytes", `{{ arg 0 }}`, `(b'a',)`, "{}", "", "cannot be read for certain"},
		{"object", `{{ arg 0 }}`, `(<Order: 5>,)`, "{}", "", "cannot be read for certain"},
		{"call", `{{ arg 0 }}`, `(UUID('1'),)`, "{}", "", "cannot be read for certain"},
		{"object before it", `{{ arg 1 }}`, `(<Order: 5>, 'b')`, "{}", "", "cannot be read for certain"},
		{"two in one", `{{ arg 0 }}`, `('a' 'b',)`, "{}", "", "cannot be read for certain"},
		{"unclosed", `{{ arg 0 }}`, `('a`, "{}", "", "cannot be read for certain"},
		{"unclosed list", `{{ arg 0 }}`, `('a'`, "{}", "", "cannot be read for certain"},
		{"no list", `{{ arg 0 }}`, `'a'`, "{}", "", "cannot be read for certain"},
		{"not even text", `{{ arg 0 }}`, 5, "{}", "", "cannot be read for certain"},
		{"JSON of the wrong kind", `{{ arg 0 }}`, map[string]any{"0": "a"}, "{}", "", "cannot be read for certain"},
		{"named list", `{{ kwarg "k" }}`, "()", "['k']", "", "cannot be read for certain"},
		{"deep", `{{ arg 1 }}`, "(" + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + ", 'b')", "{}", "", "cannot be read for certain"},
		{"none", `{{ arg 0 }}`, "(None,)", "{}", "", "no text or number"},
		{"null", `{{ arg 0 }}`, []any{nil}, "{}", "", "no text or number"},
		{"truth", `{{ arg 0 }}`, "(True,)", "{}", "", "no text or number"},
		{"collection", `{{ arg 0 }}`, "([1],)", "{}", "", "no text or number"},
		{"empty", `{{ arg 0 }}`, "('',)", "{}", "", "the argument is empty"},
		{"too long", `{{ arg 0 }}`, "('" + strings.Repeat("x", 1025) + "',)", "{}", "", "may have 1024"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, event.DecoderConfig{Keys: map[string]string{"shop.settle": c.template}})
			e := decodeOne(t, d, celery(t, "task-received", map[string]any{"name": "shop.settle", "args": c.args, "kwargs": c.kwargs}))
			if e.BusinessKey != c.key {
				t.Errorf("the key is %q, want %q", e.BusinessKey, c.key)
			}
			if said := strings.Contains(e.Attributes, "business_key_error"); said != (c.why != "") || !strings.Contains(e.Attributes, c.why) {
				t.Errorf("attributes are %s, want %q in them", e.Attributes, c.why)
			}
		})
	}
}

func TestKeysOfAuditorJSON(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{Keys: map[string]string{"settle": `order:{{ arg 0 or kwarg "id" }}`}})
	for members, want := range map[string]string{
		`"task":"settle","args":["7"]`:                                                "order:7",
		`"task":"settle","args":"('7',)"`:                                             "order:7",
		`"task":"settle","args":[],"kwargs":{"a":{"id":1},"id":12345678901234567890}`: "order:12345678901234567890",
		`"task":"settle","args":["7"],"business_key":"own"`:                           "own",
		`"task":"settle","args":["7"],"business_key":""`:                              "order:7",
		`"task":"other","args":["7"]`:                                                 "",
		`"args":["7"]`:                                                                "",
		`"task":"settle","args":null`:                                                 "",
		`"task":"settle","args":[["7"]],"business_key_error":"mine"`:                  "",
	} {
		e := decodeOne(t, d, `{"type":"started","task_id":"a1","time":1796065070,`+members+`}`)
		if e.BusinessKey != want {
			t.Errorf("%s: the key is %q, want %q", members, e.BusinessKey, want)
		}
	}
}

// A template is for a task by name or for all that fit a pattern; the most precise one counts.
func TestKeysByPattern(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{Keys: map[string]string{"*": "any:{{ arg 0 }}", "mail.*": "mail:{{ arg 0 }}", "mail.send*": "send:{{ arg 0 }}", "mail.send": "own:{{ arg 0 }}"}})
	for task, want := range map[string]string{"mail.send": "own:7", "mail.send_all": "send:7", "mail.get": "mail:7", "shop": "any:7", "": "any:7"} {
		e := decodeOne(t, d, `{"type":"started","task_id":"a1","time":1796065070,"args":["7"],"task":"`+task+`"}`)
		if e.BusinessKey != want {
			t.Errorf("%s: the key is %q, want %q", task, e.BusinessKey, want)
		}
	}
}
