package disinto_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every test that needs the real agent CLIs is run by make agents-e2e. It begins with the folder that has them.
func TestMakefileRunsRealTests(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`-run '([^']+)' ./agents/session ./cmd/disinto\n`).FindSubmatch(makefile)
	if target == nil {
		t.Fatal("the Makefile lacks the tests of agents-e2e")
	}
	run := regexp.MustCompile(string(target[1]))
	body := regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{\n.*?^\}`)
	needs := regexp.MustCompile(`bin := os\.Getenv\((clisVar|"DISINTO_CLIS")\)`)
	found := 0
	for _, dir := range []string{"agents/session", "cmd/disinto"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range body.FindAllSubmatch(text, -1) {
				if !needs.Match(test[0]) {
					continue
				}
				if found++; !run.Match(test[1]) {
					t.Errorf("%s: make agents-e2e does not run %s", file, test[1])
				}
			}
		}
	}
	if found < 7 {
		t.Errorf("found %d tests with the real CLIs, want 7 or more", found)
	}
}
