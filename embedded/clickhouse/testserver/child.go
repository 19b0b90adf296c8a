package testserver

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// subcommand is the first argument of a child.
const subcommand = "clickhouse-test-server"

func init() {
	if len(os.Args) > 2 && os.Args[1] == subcommand {
		err := serve(os.Args[2], os.Args[3:])
		fmt.Fprintln(os.Stderr, "the server ended:", err)
		os.Exit(1)
	}
}

// serve is the child: clickhouse-local, called as a function of the library at path. It ends with its standard input, which
// its parent holds open.
func serve(path string, options []string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	var (
		signalHandlers func(enabled int32)
		run            func(argc int32, argv unsafe.Pointer) unsafe.Pointer
		resultError    func(result unsafe.Pointer) string
	)
	for name, function := range map[string]any{
		"chdb_set_signal_handlers_enabled": &signalHandlers,
		"chdb_query_cmdline":               &run,
		"chdb_result_error":                &resultError,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return err
		}
		purego.RegisterFunc(function, symbol)
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var argv []*byte
	for _, text := range append([]string{"clickhouse"}, options...) {
		c := append([]byte(text), 0)
		pinner.Pin(&c[0])
		argv = append(argv, &c[0])
	}
	pinner.Pin(&argv[0])
	signalHandlers(0)
	result := run(int32(len(argv)), unsafe.Pointer(&argv[0]))
	if result == nil {
		return fmt.Errorf("it gave nothing")
	}
	return fmt.Errorf("%s", resultError(result))
}
