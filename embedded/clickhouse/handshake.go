package clickhouse

import (
	"encoding/binary"
	"strconv"
)

// clickhouse-go opens an HTTP connection with this query. It decodes the answer at the protocol revision that it asked
// for, and every later answer at the revision that this one names.
const handshakeQuery = "SELECT displayName(), version(), revision(), timezone()"

// answerHandshake encodes the answer to the handshake as one block of Native format at the client's revision. It names
// revision 0, at which the engine encodes everything, so that all other answers pass as they are.
func answerHandshake(revision, name, version, timezone string) []byte {
	const customSerialization = 54454
	asked, _ := strconv.ParseUint(revision, 10, 64)
	var block []byte
	text := func(s string) {
		block = binary.AppendUvarint(block, uint64(len(s)))
		block = append(block, s...)
	}
	column := func(name, kind string) {
		text(name)
		text(kind)
		if asked >= customSerialization {
			block = append(block, 0)
		}
	}
	if asked > 0 {
		// Block info: field 1, no overflow; field 2, no bucket; end.
		block = append(block, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0)
	}
	const columns, rows = 4, 1
	block = append(block, columns, rows)
	column("displayName()", "String")
	text(name)
	column("version()", "String")
	text(version)
	column("revision()", "UInt32")
	block = append(block, 0, 0, 0, 0)
	column("timezone()", "String")
	text(timezone)
	return block
}
