package web

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"auditor/event/finding"
	"auditor/event/view"
)

const (
	mostKeys    = 60 // keys that an incident's page lists
	mostMembers = 12 // and findings
)

// incidentView is what an incident stands for: its keys and its findings.
type incidentView struct {
	Keys     []phrase
	MoreKeys int // keys beyond those listed
	Findings []findingRow
	More     phrase // the findings beyond those listed; empty when there are none
	All      phrase // all of them, as a list
}

// incidentView reads the findings of an incident; nil for any other finding.
func (s *Server) incidentView(ctx context.Context, f finding.Finding) (*incidentView, error) {
	if f.Rule != ruleIncident {
		return nil, nil
	}
	page, err := s.store.Findings(ctx, view.FindingFilter{Incident: f.ID, Order: view.BySeverity, Limit: mostMembers})
	if err != nil {
		return nil, err
	}
	href := membersHref(f.ID)
	v := &incidentView{Findings: s.findingRows(page.Items), All: phrase{Text: plural(page.Total, "finding"), Href: href}}
	if more := page.Total - len(page.Items); more > 0 {
		v.More = phrase{Text: plural(more, "more finding"), Href: href}
	}
	keys, _ := f.Fields["keys"].([]any)
	for _, key := range keys[:min(len(keys), mostKeys)] {
		if text, ok := key.(string); ok {
			v.Keys = append(v.Keys, phrase{Text: text, Href: "/search?" + url.Values{"q": {text}}.Encode()})
		}
	}
	v.MoreKeys = max(keyCount(f), len(keys)) - len(v.Keys)
	return v, nil
}

// membersHref lists the findings of an incident, whatever became of them.
func membersHref(id string) string {
	return findingsHref("incident", id, "state", "any", "silenced", "any")
}

// sameCause leads from a finding to the incident that it belongs to, and says how many other keys that hit; empty where it belongs
// to none that is known.
func (s *Server) sameCause(ctx context.Context, f finding.Finding) (phrase, error) {
	id, _ := f.Fields["incident"].(string)
	if id == "" {
		return phrase{}, nil
	}
	incident, err := s.store.Finding(ctx, id)
	if errors.Is(err, view.ErrNotFound) {
		return phrase{}, nil
	}
	if err != nil {
		return phrase{}, err
	}
	text := incident.Title
	if others := keyCount(incident) - 1; others > 0 {
		text = plural(others, "more key") + " → " + text
	}
	return phrase{Text: text, Href: "/findings/" + url.PathEscape(id)}, nil
}

// keyCount is how many keys an incident hit.
func keyCount(f finding.Finding) int {
	n, _ := f.Fields["key_count"].(float64)
	return int(n)
}

// certaintyOf is how sure the auditor is of a finding. What keeps it from being certain is missing evidence.
func certaintyOf(f finding.Finding) phrase {
	word, _ := f.Fields["certainty"].(string)
	if word == "" || word == "certain" {
		return phrase{Text: word}
	}
	return phrase{Text: word, Tone: "warn"}
}

func missingOf(f finding.Finding) []string {
	var missing []string
	list, _ := f.Fields["missing"].([]any)
	for _, m := range list[:min(len(list), mostListed)] {
		if text, ok := m.(string); ok {
			missing = append(missing, text)
		}
	}
	return missing
}

// shownElsewhere are own fields that a finding's page does not list among its facts, for they stand elsewhere on it.
var shownElsewhere = []string{"certainty", "missing", "incident", "root", "key_count", "finding_count", "findings"}

// listedFact reports whether an own field of a finding belongs among the facts.
func listedFact(rule, name string) bool {
	return !slices.Contains(shownElsewhere, name) && !(rule == ruleIncident && name == "keys")
}

// foldOf reads whether the findings of an incident are left out where the incident itself is listed.
func foldOf(q url.Values, otherwise string) (bool, error) {
	switch members := cmp.Or(q.Get("members"), otherwise); members {
	case "yes", "no":
		return members == "no", nil
	default:
		return false, badRequest("members: must be yes or no, got " + strconv.Quote(members))
	}
}
