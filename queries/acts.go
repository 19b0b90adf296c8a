package queries

import (
	"context"
	"time"

	"auditor/event/finding"
)

// incidentRule is the rule whose findings have members.
const incidentRule = "incident"

// Act does to a finding what somebody asks for, and to the members of an incident what becomes of those with it. The same
// again changes nothing: an act is known by its request id or, where it has none, by what it would change and by the last
// entry of the log. Acts that cross each other are all in the log, and the last one holds.
//
// The error is view.ErrNotFound, a finding.Refusal, what is wrong with the act, or what kept the store from answering; then
// all of it was done or nothing, and the same call again is right.
func (s *Store) Act(ctx context.Context, a finding.Act) error {
	if err := a.Validate(); err != nil {
		return err
	}
	f, err := s.Pages().Finding(ctx, a.FindingID)
	if err != nil {
		return err
	}
	if known, err := s.acted(ctx, a); known || err != nil {
		return err
	}
	entries, err := s.entriesOf(ctx, f, a)
	if err != nil || len(entries) == 0 {
		return err
	}
	if a.Request == "" {
		return s.insert(ctx, "finding_log", "", changeBlock(entries))
	}
	if err := s.insert(ctx, "finding_log", "act:"+a.FindingID+":"+a.Request, changeBlock(entries)); err != nil {
		return err
	}
	// ClickHouse, killed at the wrong moment, knows the token and has no rows; and the same id may have come with another act.
	if known, err := s.acted(ctx, a); known || err != nil {
		return err
	}
	return s.insert(ctx, "finding_log", "", changeBlock(entries))
}

// acted reports whether the act's request is in the log. One that was for something else is refused.
func (s *Store) acted(ctx context.Context, a finding.Act) (bool, error) {
	type row struct {
		Action   string `ch:"action"`
		Assignee string `ch:"assignee"`
		By       string `ch:"by"`
		Note     string `ch:"note"`
	}
	if a.Request == "" {
		return false, nil
	}
	r, ok, err := selectOne[row](ctx, s, "store/finding_requests", params{"id": a.FindingID, "request": a.Request})
	if ok && (r != row{string(a.Action), a.Assignee, a.By, a.Note}) {
		return true, finding.Refusal("request: this id was given to another change of this finding: " + r.Action + " by " + r.By)
	}
	return ok, err
}

// entriesOf gives the entries of the log that an act comes to.
func (s *Store) entriesOf(ctx context.Context, f finding.Finding, a finding.Act) ([]finding.Change, error) {
	var members []string
	if f.Rule == incidentRule && (a.Action == finding.Acknowledge || a.Action == finding.Resolve || a.Action == finding.Reopen) {
		var err error
		if members, err = selectAll[string](ctx, s, "store/incident_members", params{"id": f.ID}); err != nil {
			return nil, err
		}
	}
	standings, err := s.standings(ctx, append([]string{f.ID}, members...))
	if err != nil {
		return nil, err
	}
	var entries []finding.Change
	own, any, err := a.On(standings.of(f.ID))
	if err != nil {
		return nil, err
	}
	if any {
		entries = append(entries, own)
	}
	for _, id := range members {
		if entry, any := a.OnMember(id, standings.of(id)); any {
			entries = append(entries, entry)
		}
	}
	for i := range entries {
		entries[i].Time = after(entries[i].Time, standings[entries[i].FindingID].Last.Time)
	}
	return entries, nil
}

// standings is how findings stand, by id.
type standings map[string]finding.Standing

// of gives how a finding stands. One that was never logged is open.
func (s standings) of(id string) finding.Standing {
	if standing, ok := s[id]; ok {
		return standing
	}
	return finding.Standing{State: finding.Open}
}

func (s *Store) standings(ctx context.Context, ids []string) (standings, error) {
	type row struct {
		ID        string    `ch:"finding_id"`
		State     string    `ch:"state"`
		Assignee  string    `ch:"assignee"`
		Through   string    `ch:"through"`
		ChangedAt time.Time `ch:"changed_at"`
		From      string    `ch:"from_state"`
		To        string    `ch:"to_state"`
		By        string    `ch:"by"`
		Note      string    `ch:"note"`
		Action    string    `ch:"action"`
	}
	all := make(standings, len(ids))
	for _, some := range chunks(ids) {
		rows, err := selectAll[row](ctx, s, "store/finding_standings", params{"ids": some})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			all[r.ID] = finding.Standing{State: finding.State(r.State), Assignee: r.Assignee, Through: r.Through, Last: finding.Change{
				FindingID: r.ID, Time: r.ChangedAt, Action: finding.Action(r.Action), From: finding.State(r.From), To: finding.State(r.To),
				By: r.By, Note: r.Note,
			}}
		}
	}
	return all, nil
}
