package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// draft is an event that is being read.
type draft struct {
	*Event
	members    []member // all that the sender said of it
	outcome    string
	celery     celeryText
	attributes value    // the member of that name
	extra      []member // what has no field of its own
}

// fill reads the members, auditor JSON or a raw Celery event, and lets the envelope say what they leave open.
func (dr *draft) fill(cloud *cloudEvent) *fault {
	e := dr.Event
	e.Retries, e.MaxRetries, e.RetryIn, e.Active, e.Seq = Unknown, Unknown, Unknown, Unknown, Unknown
	read := (*draft).readAuditor
	if isCelery(dr.members) {
		read = (*draft).readCelery
	}
	if bad := read(dr); bad != nil {
		return bad
	}
	if cloud != nil {
		cloud.complete(dr)
	}
	return dr.settleType()
}

// readAuditor reads auditor JSON.
func (dr *draft) readAuditor() *fault {
	for _, m := range dr.members {
		if bad := dr.set(fields, m); bad != nil {
			return bad
		}
	}
	if e := dr.Error; e != nil && *e == (Error{}) {
		dr.Error = nil
	}
	if s := dr.Skip; s != nil && *s == (Skip{}) {
		dr.Skip = nil
	}
	if e := dr.Effect; e != nil && *e == (Effect{}) {
		dr.Effect = nil
	}
	return nil
}

// set gives a member to its field, or keeps it among those that have none. A null says nothing.
func (dr *draft) set(fields map[string]field, m member) *fault {
	f, known := fields[m.name]
	switch {
	case !known:
		dr.extra = append(dr.extra, m)
		return nil
	case m.value == "null":
		return nil
	}
	return f(dr, m.value).in(m.name)
}

// settleType makes the type of what type and outcome say. They must not contradict each other: a record that can be
// read in two ways is not read at all.
func (dr *draft) settleType() *fault {
	switch outcome := Type(dr.outcome); {
	case dr.Type == "" && outcome == "":
		return faultf(ReasonUnknownType, "neither type nor outcome is told")
	case outcome != "" && !outcome.isOutcome():
		return faultf(ReasonUnknownType, "outcome %.64q is none that the auditor knows", outcome)
	case dr.Type == "":
		dr.Type = outcome
	case outcome != "" && outcome != dr.Type:
		return faultf(ReasonContradiction, "type is %.64q and outcome %q", dr.Type, outcome)
	}
	if dr.Type.Rank() < 0 {
		return faultf(ReasonUnknownType, "type %.64q is none that the auditor knows", dr.Type)
	}
	return nil
}

// isOutcome reports whether t can be the outcome of a run.
func (t Type) isOutcome() bool { return t.EndsRun() && t != WorkerLost }

// setKey makes the business key by the task's template. When the arguments cannot be read for certain there is no key,
// for a wrong one would blend the work of two, and the attributes say why.
func (dr *draft) setKey(key *KeyTemplate) {
	text, err := key.render(dr.Task, find(dr.members, "args"), find(dr.members, "kwargs"))
	if err == nil {
		dr.BusinessKey = text
		return
	}
	const name = "business_key_error"
	if !errors.Is(err, errNoArguments) && find(dr.extra, name) == "" {
		quoted, _ := jsontext.AppendQuote(nil, err.Error()) // makes any text valid
		dr.extra = append(dr.extra, member{name: name, value: value(quoted)})
	}
}

// canonical writes JSON in one way only: names sorted, no white space, the shortest escapes. Numbers stay as they were
// written, for canonical ones in the sense of RFC 8785 lose digits beyond those of a float64.
var canonical = []jsontext.Options{
	jsontext.ReorderRawObjects(true),
	jsontext.CanonicalizeRawInts(false),
	jsontext.CanonicalizeRawFloats(false),
	jsontext.PreserveRawStrings(false),
	jsontext.SpaceAfterColon(false),
	jsontext.SpaceAfterComma(false),
}

// setAttributes gathers what has no field of its own into one canonical object. A name must not stand in the attributes
// and beside them too.
func (dr *draft) setAttributes() *fault {
	if dr.attributes != "" {
		for name, v := range dr.attributes.members() {
			dr.extra = append(dr.extra, member{name, v})
		}
	}
	if len(dr.extra) == 0 {
		return nil
	}
	slices.SortFunc(dr.extra, byName)
	for i, m := range dr.extra[1:] {
		if m.name == dr.extra[i].name {
			return faultf(ReasonDuplicateName, "%.64q stands in the attributes and beside them", m.name)
		}
	}
	dr.Attributes = string(joined(dr.extra))
	return nil
}

func byName(a, b member) int { return strings.Compare(a.name, b.name) }

// joined makes one object of members, each in canonical form.
func joined(members []member) value {
	size := 2
	for _, m := range members {
		size += len(m.name) + len(m.value) + 4
	}
	object := append(make([]byte, 0, size), '{')
	for i, m := range members {
		if i > 0 {
			object = append(object, ',')
		}
		object, _ = jsontext.AppendQuote(object, m.name) // names were validated when they were parsed
		object = append(object, ':')
		object = append(object, m.value.canonical()...)
	}
	return value(append(object, '}'))
}

// contentID derives an id from what the sender said, whatever the order and the white space it was said in: the same
// content is the same event. Neither the configuration nor the place in Kafka has a part in it.
func (dr *draft) contentID() string {
	members := slices.Clone(dr.members)
	slices.SortFunc(members, byName)
	var content []byte
	for _, m := range members {
		if m.value == "null" || m.name == "local_received" { // when a monitor saw a Celery event is none of its content
			continue
		}
		if dr.celery.kind != "" && (m.name == "emitter" || m.name == "seq") { // nor is which bridge carried it
			continue
		}
		text := m.value.canonical()
		content = binary.AppendUvarint(content, uint64(len(m.name)))
		content = append(content, m.name...)
		content = binary.AppendUvarint(content, uint64(len(text)))
		content = append(content, text...)
	}
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// canonical gives the one way to write v, and "" for no value.
func (v value) canonical() value {
	if v == "" {
		return v
	}
	if k := v.kind(); k != '{' && k != '[' && (k != '"' || strings.IndexByte(string(v), '\\') < 0) {
		return v
	}
	text, err := jsontext.AppendFormat(nil, string(v), canonical...)
	if err != nil {
		return v // it was valid when it was parsed
	}
	return value(text)
}
