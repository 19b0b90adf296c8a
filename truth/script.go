package main

// script is one way in which a story can go.
type script struct {
	name   string
	weight int // how often it happens by itself, beside the others; 0: only where the plan asks for it
	amiss  bool
	tell   func(*story)
}

// scripts lists those that happen by themselves, at any time.
var scripts = append(append([]*script{}, healthy...), troubled...)

var weights = func() (sum int) {
	for _, s := range scripts {
		sum += s.weight
	}
	return sum
}()

// drawScript chooses what the next story is.
func (w *world) drawScript() *script {
	n := w.rng.IntN(weights)
	for _, s := range scripts {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	return nil
}
