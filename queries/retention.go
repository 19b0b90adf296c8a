package queries

import "context"

// setRetention brings the tables' TTL in line with the configuration. Tables that only the rules read keep what they
// need for no longer than two weeks.
func (s *Store) setRetention(ctx context.Context) error {
	have, err := s.retention(ctx)
	if err != nil {
		return err
	}
	const rulesRead = 14
	for table, days := range have {
		want := uint32(s.config.RetentionDays)
		if table == "changed_keys" || table == "attempts" {
			want = min(want, rulesRead)
		}
		if days == want {
			continue
		}
		if err := s.keep(ctx, table, want); err != nil {
			// Another process may have done the same at the same time.
			if now, again := s.retention(ctx); again != nil || now[table] != want {
				return err
			}
		}
		s.log.Info("changed retention", "table", table, "days", want)
	}
	return nil
}

// retention gives for how many days each table keeps its rows; 0 is for ever.
func (s *Store) retention(ctx context.Context) (map[string]uint32, error) {
	type row struct {
		Table string `ch:"table"`
		Days  uint32 `ch:"days"`
	}
	rows, err := selectAll[row](ctx, s, "store/retention", nil)
	if err != nil {
		return nil, err
	}
	days := make(map[string]uint32, len(rows))
	for _, r := range rows {
		days[r.Table] = r.Days
	}
	return days, nil
}

func (s *Store) keep(ctx context.Context, table string, days uint32) error {
	if days == 0 {
		return s.exec(ctx, "store/keep_for_ever", params{"table": table})
	}
	return s.exec(ctx, "store/keep_for_days", params{"table": table, "days": days})
}
