package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummary(t *testing.T) {
	events := `
{"Action":"start","Package":"auditor/a"}
{"Action":"run","Package":"auditor/a","Test":"TestGood"}
{"Action":"output","Package":"auditor/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"auditor/a","Test":"TestGood","Elapsed":0.1}
{"Action":"output","Package":"auditor/a","Test":"TestShy","Output":"=== RUN   TestShy\n"}
{"Action":"output","Package":"auditor/a","Test":"TestShy","Output":"    a_test.go:12: missing: chromium (apt-get install chromium)\n"}
{"Action":"output","Package":"auditor/a","Test":"TestShy","Output":"--- SKIP: TestShy (0.00s)\n"}
{"Action":"skip","Package":"auditor/a","Test":"TestShy","Elapsed":0}
{"Action":"output","Package":"auditor/a","Output":"ok  \tauditor/a\t0.100s\n"}
{"Action":"pass","Package":"auditor/a","Elapsed":0.1}
{"Action":"output","Package":"auditor/b","Test":"TestBad","Output":"    b_test.go:3: 2, want 1\n"}
{"Action":"output","Package":"auditor/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"auditor/b","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"auditor/b","Output":"FAIL\n"}
{"Action":"fail","Package":"auditor/b","Elapsed":0.2}
{"ImportPath":"auditor/c","Action":"build-output","Output":"c/c.go:1:1: expected 'package'\n"}
{"Action":"fail","Package":"auditor/c","Elapsed":0,"FailedBuild":"auditor/c"}
{"Action":"skip","Package":"auditor/d","Elapsed":0}
a line that is no event
`
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	s.close()
	want := `ok    auditor/a  0.1s
    b_test.go:3: 2, want 1
--- FAIL: TestBad (0.00s)
FAIL
FAIL  auditor/b  0.2s
c/c.go:1:1: expected 'package'
FAIL  auditor/c  0.0s
a line that is no event

Skipped:
  missing: chromium (apt-get install chromium)
    a TestShy

1 passed, 2 failed, 1 skipped
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRunFailsWhereATestDoes(t *testing.T) {
	var out, stderr strings.Builder
	if err := run([]string{"./no-such-package"}, &out, &stderr); err == nil {
		t.Errorf("no error\n%s%s", out.String(), stderr.String())
	}
	if !strings.Contains(out.String(), "0 passed, 1 failed, 0 skipped") {
		t.Errorf("%s", out.String())
	}
}
