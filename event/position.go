package event

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// AnyIndex stands for whichever element of a record. No row has it.
const AnyIndex = math.MinInt32

// FormatPosition writes a position as people name it: topic:partition:offset:index, the index left out where it is AnyIndex.
func FormatPosition(p Position) string {
	if p.Index == AnyIndex {
		return fmt.Sprintf("%s:%d:%d", p.Topic, p.Partition, p.Offset)
	}
	return fmt.Sprintf("%s:%d:%d:%d", p.Topic, p.Partition, p.Offset, p.Index)
}

// ParsePosition reads what FormatPosition writes. The index may be left out, and is AnyIndex then.
func ParsePosition(text string) (Position, error) {
	parts := strings.Split(text, ":")
	numbers := [3]int64{2: AnyIndex}
	wrong := len(parts) < 3 || len(parts) > 4 || parts[0] == ""
	for i := 1; i < len(parts) && !wrong; i++ {
		bits := 32
		if i == 2 {
			bits = 64
		}
		if i == 3 && parts[i] == strconv.Itoa(WholeRecord) {
			numbers[2] = WholeRecord
			break
		}
		n, err := strconv.ParseUint(parts[i], 10, bits-1)
		numbers[i-1], wrong = int64(n), err != nil
	}
	if wrong {
		return Position{}, fmt.Errorf("must be topic:partition:offset, with :index behind it for an element of an array, such as task-events:0:42, not %q", text)
	}
	return Position{Topic: parts[0], Partition: int32(numbers[0]), Offset: numbers[1], Index: int32(numbers[2])}, nil
}
