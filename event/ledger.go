package event

// Tally is how many rows the store holds of a stretch of offsets of one partition, events and rejects together.
type Tally struct {
	First     int64 // where the stretch begins
	Rows      int64 // as they lie there: what lies there twice counts twice
	Positions int64 // distinct
	Offsets   int64 // distinct
}

// Held is what the store holds of one offset, events and rejects together.
type Held struct {
	Offset    int64
	Rows      int64 // as they lie there
	Positions int64 // distinct
	Top       int32 // the highest index among them
}

// Extent is from where to where the ledger of one partition reaches.
type Extent struct {
	Ranges  int   // 0: it has none, and the rest is zero
	Start   int64 // where the first begins
	Next    int64 // the offset after the last
	Longest int64 // how many offsets the longest range has
}
