package event

import "time"

// PartitionID names one partition of a topic.
type PartitionID struct {
	Topic     string
	Partition int32
}

// Cursor says of each partition the offset of the next record that is to be read.
type Cursor map[PartitionID]int64

// Progress is where ingest stands in one partition, as the process that reads it tells the others. It holds as of Checked,
// whoever reads the partition now.
type Progress struct {
	PartitionID
	Topics     []string  // that the consumer group reads, all of them
	Partitions int       // how many the topic has
	Next       int64     // the next offset to read: the store has every record before it
	End        int64     // the high watermark
	LogStart   int64     // the first offset that Kafka still holds, -1 when that is not known
	Newest     time.Time // Kafka timestamp of the newest record in the store; zero when it has none
	Checked    time.Time // when End was read, by the clock of the process that reads
	Problem    string    // why the partition stands still; empty when it does not
}
