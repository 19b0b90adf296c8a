// Command chaos proves that the auditor loses nothing and doubles nothing, whatever is killed, and whenever.
//
// A trial runs the auditor itself, in three processes (two ingest, one owns the embedded engine, judges and shows), against
// a real broker. A producer sends events whose truth it knows, while processes are killed and paused, servers restarted,
// disks filled, and requests lost, cut, or applied when nobody expects them any more. Then the store is compared with the
// log, row by row, and what the rules found with what there was to be found.
//
// What is sent and what goes wrong when is a function of a seed. What the processes are doing at that moment is not.
package main
