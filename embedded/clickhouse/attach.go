package clickhouse

import (
	"context"
	"net"
	"path/filepath"
)

// Attach gives a way to the engine that another process runs on a data directory, as a client of it; false when none
// answers there. The socket is for the user alone whose process that is.
func Attach(ctx context.Context, data string) (dial func(context.Context) (net.Conn, error), ok bool) {
	data, err := filepath.Abs(data)
	if err != nil {
		return nil, false
	}
	path, ok := socketIn(data)
	if !ok {
		return nil, false
	}
	dial = func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, false
	}
	_ = conn.Close() // nothing was sent on it
	return dial, true
}

// socketIn is the path of the socket in a data directory; false when the kernel would not take it.
func socketIn(data string) (string, bool) {
	const longest = 100 // about what it takes
	path := filepath.Join(data, "http.sock")
	return path, len(path) <= longest
}
