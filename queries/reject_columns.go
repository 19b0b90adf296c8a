package queries

import (
	"time"
	"unsafe"

	"auditor/event"
)

// rejectColumn is one column of rejects, for writing.
type rejectColumn struct {
	name, kind string
	gather     func([]event.Reject) any
	encode     func(*encoder, []event.Reject)
}

// rejectColumns is the list of the columns of rejects that ingest writes. Of LowCardinality columns the kind is what is sent:
// rejects are few.
var rejectColumns = []rejectColumn{
	rejectOf("kafka_topic", "String", func(r *event.Reject) string { return r.Topic }, (*encoder).text),
	rejectOf("kafka_partition", "Int32", func(r *event.Reject) int32 { return r.Partition }, (*encoder).int32),
	rejectOf("kafka_offset", "Int64", func(r *event.Reject) int64 { return r.Offset }, (*encoder).int64),
	rejectOf("kafka_index", "Int32", func(r *event.Reject) int32 { return r.Index }, (*encoder).int32),
	rejectOf("kafka_time", "DateTime64(3, 'UTC')", func(r *event.Reject) time.Time { return storable(r.KafkaTime) },
		func(x *encoder, t time.Time) { x.int64(t.UnixMilli()) }),
	rejectOf("reason", "String", func(r *event.Reject) string { return string(r.Reason) }, (*encoder).text),
	rejectOf("detail", "String", func(r *event.Reject) string { return r.Detail }, (*encoder).text),
	rejectOf("key", "String", func(r *event.Reject) string { return asText(r.Key) }, (*encoder).text),
	headers("header_names", func(h *event.Header) string { return h.Key }),
	headers("header_values", func(h *event.Header) string { return asText(h.Value) }),
	rejectOf("raw", "String", func(r *event.Reject) string { return asText(r.Raw) }, (*encoder).text),
}

// asText gives bytes that nobody changes as a text, without a copy: they may be many.
func asText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func rejectOf[T any](name, kind string, get func(*event.Reject) T, put func(*encoder, T)) rejectColumn {
	return rejectColumn{name, kind,
		func(rejects []event.Reject) any { return pluck(rejects, get) },
		func(x *encoder, rejects []event.Reject) {
			for i := range rejects {
				put(x, get(&rejects[i]))
			}
		}}
}

// headers is a column of lists: where each ends, then what is in all of them.
func headers(name string, get func(*event.Header) string) rejectColumn {
	return rejectColumn{name, "Array(String)",
		func(rejects []event.Reject) any {
			return pluck(rejects, func(r *event.Reject) []string { return pluck(r.Headers, get) })
		},
		func(x *encoder, rejects []event.Reject) {
			end := 0
			for i := range rejects {
				end += len(rejects[i].Headers)
				x.int64(int64(end))
			}
			for i := range rejects {
				for j := range rejects[i].Headers {
					x.text(get(&rejects[i].Headers[j]))
				}
			}
		}}
}

func rejectBlock(rejects []event.Reject) []values {
	block := make([]values, len(rejectColumns))
	for i, c := range rejectColumns {
		block[i] = values{c.name, gathered(func() any { return c.gather(rejects) })}
	}
	return block
}
