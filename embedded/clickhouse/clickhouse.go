// Package clickhouse runs a ClickHouse engine on one machine, without a server to install.
//
// The engine is libchdb, a shared library, in a child process of its own: what it takes or breaks is not the
// program's. The child serves the ClickHouse HTTP interface on a unix socket in the data directory, which any client
// can use that is given a way to dial; clickhouse-go is, with Protocol HTTP, DialContext Engine.Dial and no
// compression (or gzip). The child holds the data directory alone, is started again when it ends, and ends with its
// parent, however that ends. What a statement has written survives the sudden end of either.
//
// Every request is a session of its own: settings and the current database come with the URL and go with the answer.
// One statement a request. Temporary tables, sessions, external tables and ClickHouse's own compression are refused.
package clickhouse

// Subcommand is the first argument of the child process's command line. A program that starts engines calls Child with
// the arguments that follow it.
const Subcommand = "embedded-clickhouse"
