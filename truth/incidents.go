package main

import (
	"maps"
)

// manyKeys is how many keys one root must hit to be an incident.
const manyKeys = 5

// calamity is one root in one namespace, with the keys of which the events show that it hit them.
type calamity struct {
	namespace string
	root      root
}

// incidents holds the incidents that were found against the roots of the troubles. An incident is right that lists keys of
// one root in its greater part; a root is found by an incident of its kind that lists four of five of its keys.
func (v *verdict) incidents(t *truth, all []found) {
	keys := make(map[calamity]map[string]map[string]bool) // by rule
	of := make(map[subject][]calamity)
	for _, trouble := range t.troubles {
		c := calamity{trouble.namespace, trouble.root}
		if c.root.kind == "" || trouble.subject == "" {
			continue
		}
		s := subject{trouble.namespace, trouble.subject}
		of[s] = append(of[s], c)
		if trouble.evidence != evident {
			continue
		}
		if keys[c] == nil {
			keys[c] = make(map[string]map[string]bool)
		}
		if keys[c][trouble.rule] == nil {
			keys[c][trouble.rule] = make(map[string]bool)
		}
		keys[c][trouble.rule][trouble.subject] = true
	}
	listed := make(map[calamity]map[string]bool)
	for _, f := range all {
		if c, ok := f.calamity(of); !ok {
			v.mistake(t, f, nil)
		} else if listed[c] == nil {
			listed[c] = setOf(f.Keys)
		} else {
			maps.Copy(listed[c], setOf(f.Keys))
		}
	}
	for c, byRule := range keys {
		hit, most := make(map[string]bool), 0
		for _, some := range byRule {
			maps.Copy(hit, some)
			most = max(most, len(some))
		}
		if most < manyKeys {
			continue
		}
		n := v.tally(incident, c.root.kind)
		n.Expected++
		if told := listed[c]; common(hit, told)*5 >= len(hit)*4 {
			n.Found++
			continue
		}
		n.Missed++
		v.missed = append(v.missed, missing{trouble: trouble{about: about{rule: incident, namespace: c.namespace, subject: c.root.name},
			kind: c.root.kind, count: len(hit), script: c.root.kind}})
	}
}

// calamity is the root of the greater part of the keys that an incident lists, false where there is none of its kind.
func (f *found) calamity(of map[subject][]calamity) (best calamity, ok bool) {
	count := make(map[calamity]int)
	for _, key := range f.Keys {
		seen := make(map[calamity]bool)
		for _, c := range of[subject{f.Namespace, key}] {
			if c.root.kind == f.Kind && !seen[c] {
				seen[c] = true
				count[c]++
			}
		}
	}
	for c, n := range count {
		if n > count[best] || n == count[best] && c.root.name < best.root.name {
			best = c
		}
	}
	return best, count[best]*2 > len(f.Keys)
}

func setOf(keys []string) map[string]bool {
	set := make(map[string]bool)
	for _, key := range keys {
		set[key] = true
	}
	return set
}

func common(a, b map[string]bool) (n int) {
	for key := range a {
		if b[key] {
			n++
		}
	}
	return n
}
