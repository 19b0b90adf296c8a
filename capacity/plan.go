package main

import (
	"cmp"
	"math"
	"slices"
)

// plan is what a rate takes. What is bought is so that it is in use to inputs.utilisation.
type plan struct {
	rate float64 // events a second

	partitions, processes, shards, brokers int
	batches                                float64 // a second, over all partitions; each is an insert on every shard
	rows, partRows                         float64 // of a batch, and of what one shard gets of it
	parts                                  float64 // a second, over all tables and shards
	merged                                 float64 // times that an event is
	age                                    float64 // s from Kafka to the store
	look                                   float64 // s that the rules take to look at all partitions; 0: they fall ever further behind

	ingestCores, engineCores, brokerCores float64 // of all processes, servers with their replicas, brokers to be read
	smallShare                            float64 // of the engine's time, what batches take whatever is in them
	processMiB                            float64

	dayEvents, dayAll, kept, kafkaDay, kafkaKept float64 // bytes; kept is one replica of all shards, and Kafka's are without copies
	fromKafka, toStore                           float64 // bytes a second

	tokens float64 // s for which a lost acknowledgement may last and the token still be known
	slack  float64 // s for which merges may stand still until inserts are delayed
	keeper float64 // writes a second
	strain map[string]float64
}

// What more machines do not relieve. Its strain is how much of what it bears is asked of it; above 1 it gives way.
const (
	ofMerges = "merges" // too many parts: ClickHouse delays inserts, then refuses them
	ofTokens = "tokens" // a batch may be sent again after its token was forgotten
	ofKeeper = "Keeper"
	ofRules  = "rules" // findings come ever later
)

var weak = []string{ofMerges, ofTokens, ofKeeper, ofRules}

// first is what gives way first.
func (p *plan) first() string {
	return slices.MaxFunc(weak, func(a, b string) int { return cmp.Compare(p.strain[a], p.strain[b]) })
}

const day = 86_400

// leastPartitions leave room for a further process or two.
const leastPartitions = 4

func (in *inputs) plan(rate float64) plan {
	p := plan{rate: rate}
	bought := rate / in.utilisation
	p.partitions = max(leastPartitions, ceil(bought/in.partitionRate))

	// A partition makes a batch each maxWait, and a full one as soon as it can.
	full := in.fullBatch()
	p.rows = min(full, max(1, rate/float64(p.partitions)*in.maxWait))
	p.batches = rate / p.rows
	p.age = in.maxWait + in.inFlight(p.rows)

	p.ingestCores = bought * in.ingest / 1e6
	// While it catches up each batch is full, and those in flight need their part of the memory.
	memory := bought * in.inFlight(full) * in.rowMemory / mib
	p.processes = min(p.partitions, max(2, ceil(p.ingestCores/in.cores), ceil(memory/in.memory)))
	p.processMiB = in.processBase + in.processPerMemory*in.memory

	daily := rate * day
	p.dayEvents, p.dayAll, p.kafkaDay = daily*in.bytesEvents, daily*in.bytesAll, daily*in.wire
	p.kept = daily * ((in.bytesAll-in.bytesKeys)*in.retention + in.bytesKeys*in.keysDays)
	p.kafkaKept = p.kafkaDay * in.kafkaDays
	disk := in.disk * 1e12 * in.full
	p.shards = max(1, ceil(p.kept/disk))
	p.brokers = max(int(in.kafkaCopies), ceil(p.kafkaKept*in.kafkaCopies/disk))

	// A batch is spread over all shards by key: more shards make smaller parts, not fewer.
	shards := float64(p.shards)
	p.partRows = max(1, p.rows/shards)
	p.parts = p.batches * (in.tables*shards + in.ledgers)
	p.merged = in.timesMerged(p.partRows, daily*7/shards)
	rows := rate * (in.insert + in.merge*p.merged) / 1e6
	small := p.batches * shards * in.perBatch / 1e3
	p.engineCores = (rows + small) / in.utilisation * in.replicas
	p.smallShare = small / (rows + small)
	p.brokerCores = bought * in.broker / 1e6
	p.fromKafka, p.toStore = rate*in.wire, rate*in.block

	p.tokens, p.slack = in.window/p.batches, in.delayAt/p.batches
	p.keeper = p.parts * in.perPart
	if free := 1 - rate*in.rules/1e6; free > 0 { // of a look's time, what is left for asking each partition
		p.look = float64(p.partitions) * in.look / free
	}
	p.strain = map[string]float64{
		ofMerges: in.stall / p.slack,
		ofTokens: (in.session + in.rebalance) / p.tokens,
		ofKeeper: p.keeper / in.keeper,
		ofRules:  rate * in.rules / 1e6,
	}
	return p
}

// fullBatch is the most rows that a batch holds.
func (in *inputs) fullBatch() float64 { return min(in.maxRows, in.fullRows*in.maxMiB/8) }

// inFlight is for how many seconds a batch of so many rows is in memory.
func (in *inputs) inFlight(rows float64) float64 {
	return in.roundTrips + rows*(in.ingest+in.insert)/1e6
}

// timesMerged is how often an event is merged until it lies in a part as large as parts get: those of a week are not merged
// with another's. Each merge makes parts larger by the same factor, which is that of the run that was measured.
func (in *inputs) timesMerged(from, week float64) float64 {
	factor := math.Log(in.runEvents/in.fullRows) / in.runMerges
	largest := min(week, in.largestPart*(1<<30)/in.bytesEvents)
	return max(0, math.Log(largest/from)/factor)
}

// bears is the highest rate, up to a billion a second, at which a part is not strained beyond 1.
func (in *inputs) bears(name string) float64 {
	low, high := 1.0, 1e9
	for high/low > 1.001 {
		middle := math.Sqrt(low * high)
		if in.plan(middle).strain[name] > 1 {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }
