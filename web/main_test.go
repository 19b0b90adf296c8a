package web_test

import (
	"testing"

	"auditor/embedded/clickhouse/chtest"
)

func TestMain(m *testing.M) { chtest.Main(m) }
