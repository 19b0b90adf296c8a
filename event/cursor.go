package event

// PartitionID names one partition of a topic.
type PartitionID struct {
	Topic     string
	Partition int32
}

// Cursor says of each partition the offset of the next record that is to be read.
type Cursor map[PartitionID]int64
