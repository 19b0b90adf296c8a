package testserver_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/testserver"
	"auditor/internal/require"
)

func ask(t *testing.T, s *testserver.Server, sql string) string {
	t.Helper()
	response, err := http.Post("http://"+s.HTTP()+"/", "text/plain", strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestTwoServersAreACluster(t *testing.T) {
	at, err := testserver.Addresses(4)
	if err != nil {
		t.Fatal(err)
	}
	shards := ""
	for _, address := range at[:2] {
		host, port, _ := net.SplitHostPort(address)
		shards += "<shard><replica><host>" + host + "</host><port>" + port + "</port></replica></shard>"
	}
	var servers []*testserver.Server
	for i := range 2 {
		s, err := testserver.Start(t.Context(), testserver.Config{Data: t.TempDir(), Native: at[i], HTTP: at[2+i],
			XML: "<remote_servers><two>" + shards + "</two></remote_servers>"})
		if errors.Is(err, clickhouse.ErrNoLibrary) {
			require.Missing(t, "libchdb", "npm ci --prefix embedded/clickhouse")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		servers = append(servers, s)
		ask(t, s, "CREATE TABLE here (n UInt64) ENGINE = MergeTree ORDER BY n")
	}
	ask(t, servers[0], "CREATE TABLE everywhere AS here ENGINE = Distributed('two', 'default', 'here', n)")
	ask(t, servers[0], "INSERT INTO everywhere SETTINGS distributed_foreground_insert = 1 SELECT number FROM numbers(10)")
	for i, s := range servers {
		if got, want := ask(t, s, "SELECT sum(n) FROM here"), []string{"20", "25"}[i]; got != want {
			t.Errorf("server %d has %s, want %s", i, got, want)
		}
	}
	if got := ask(t, servers[0], "SELECT sum(n) FROM everywhere"); got != "45" {
		t.Errorf("both have %s", got)
	}
	servers[1].Stop()
	if got := ask(t, servers[0], "SELECT sum(n) FROM everywhere"); !strings.Contains(got, "ALL_CONNECTION_TRIES_FAILED") {
		t.Errorf("one is away: %s", got)
	}
}

func TestServerThatCannotStart(t *testing.T) {
	if _, err := clickhouse.Locate(""); err != nil {
		require.Missing(t, "libchdb", "npm ci --prefix embedded/clickhouse")
	}
	at, err := testserver.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := testserver.Start(t.Context(), testserver.Config{Data: t.TempDir(), Native: at[0], XML: "<users>"})
	if err == nil {
		s.Stop()
		t.Fatal("a broken configuration was taken")
	}
	if !strings.Contains(err.Error(), "SAXParseException") {
		t.Errorf("the reason is missing: %v", err)
	}
}
