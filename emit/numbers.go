package emit

import "sync"

// numbers counts the events of each namespace, for whoever looks for gaps sees one namespace. It is safe for concurrent use.
type numbers struct {
	mu   sync.Mutex
	next map[string]int64
}

// take gives the next number of a namespace, from 0 on.
func (n *numbers) take(namespace string) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = map[string]int64{}
	}
	number := n.next[namespace]
	n.next[namespace]++
	return number
}
