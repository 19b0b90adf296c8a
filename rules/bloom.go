package rules

import "math/bits"

// bloom is a set of hashes that may take a hash for its own that is not: about one in a thousand. All bits of a hash lie in
// one block, which is a line of the processor's cache.
type bloom []bloomBlock

type bloomBlock [8]uint64

const (
	bloomKeys = 32 // in a block, on average: 16 bits each
	bloomBits = 6  // that a hash sets
)

// newBloom makes a set for so many hashes.
func newBloom(hashes int) bloom { return make(bloom, hashes/bloomKeys+1) }

func (b bloom) bytes() int { return len(b) * 64 }

func (b bloom) add(hash uint64) {
	block, bits := b.place(hash)
	for range bloomBits {
		block[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
}

func (b bloom) has(hash uint64) bool {
	block, bits := b.place(hash)
	for range bloomBits {
		if block[bits>>6&7]&(1<<(bits&63)) == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}

// place gives the block of a hash, and the bits in it, nine for each.
func (b bloom) place(hash uint64) (block *bloomBlock, choice uint64) {
	mixed, choice := bits.Mul64(hash, 0x9e3779b97f4a7c15)
	mixed ^= choice
	at, _ := bits.Mul64(mixed*0xff51afd7ed558ccd, uint64(len(b)))
	return &b[at], mixed ^ choice>>7
}
