package clickhouse

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ErrNoLibrary says that the engine's library is nowhere to be found, and how to get it.
var ErrNoLibrary = errors.New("libchdb, the embedded ClickHouse engine, is missing: run `npm ci --prefix embedded/clickhouse`, or name a copy in AUDITOR_LIBCHDB")

// Locate finds the engine's library: the explicit path, the one in AUDITOR_LIBCHDB, or what npm ci has brought to
// embedded/clickhouse in the working directory, the executable's, or one above either. It gives ErrNoLibrary if there
// is none; a path that was named but leads nowhere is an error of its own.
func Locate(explicit string) (string, error) {
	for _, named := range []struct{ path, by string }{{explicit, "configuration"}, {os.Getenv("AUDITOR_LIBCHDB"), "variable AUDITOR_LIBCHDB"}} {
		if named.path == "" {
			continue
		}
		path, err := filepath.Abs(named.path)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("the engine's library named by the %s: %w", named.by, err)
		}
		return path, nil
	}
	var starts []string
	if directory, err := os.Getwd(); err == nil {
		starts = append(starts, directory)
	}
	if executable, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(executable))
	}
	for _, start := range starts {
		for directory := start; ; directory = filepath.Dir(directory) {
			path := filepath.Join(directory, "embedded", "clickhouse", "node_modules", "@chdb", platformPackage(), "libchdb.so")
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, nil
			}
			if directory == filepath.Dir(directory) {
				break
			}
		}
	}
	return "", ErrNoLibrary
}

// platformPackage is the npm package, of those that carry the library, for this machine.
func platformPackage() string {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	if runtime.GOOS == "linux" {
		return "lib-linux-" + arch + "-gnu"
	}
	return "lib-" + runtime.GOOS + "-" + arch
}
