package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads/sim"
)

const simulated = `
[threads.api]
backend = "anthropic"
agents = ["review-sonnet"]
[threads.llama]
backend = "local"
max_concurrent = 1
agents = ["dev-a", "dev-b"]
[roles.dev]
cli = "claude"
`

// simulate runs disinto simulate in a folder with files, in an environment without secrets.
func simulate(t *testing.T, files map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, err bytes.Buffer
	c := &cli{stdout: &out, stderr: &err, now: time.Now}
	code = c.run(context.Background(), append([]string{"simulate"}, args...))
	return out.String(), err.String(), code
}

// --against compares two factories. Both get the same work, and the one with two slots finishes it sooner.
func TestSimulate(t *testing.T) {
	files := map[string]string{
		"factory.toml": simulated, "two.toml": strings.Replace(simulated, "max_concurrent = 1", "max_concurrent = 2", 1),
		"load.toml": "[[issues]]\nper_day = 60\nminutes = 12\n[[issues]]\nper_day = 3\npriority = 1\n",
	}
	text, complaint, code := simulate(t, files, "--load", "load.toml", "--days", "0.4", "--against", "two.toml", "--json")
	if code != 0 {
		t.Fatal(complaint)
	}
	var got struct{ Reports []sim.Report }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	n := len(got.Reports)
	if n != len(sim.Policies())+1 || got.Reports[n-1].Policy != "disinto two.toml" {
		t.Fatalf("got %d reports", n)
	}
	one, two := got.Reports[n-2], got.Reports[n-1]
	if one.Issues < 18 || one.Issues != two.Issues || one.Done != one.Issues || two.Done != two.Issues {
		t.Errorf("got %d of %d and %d of %d issues done", one.Done, one.Issues, two.Done, two.Issues)
	}
	if two.Turn.Mean >= one.Turn.Mean*3/4 {
		t.Errorf("with a second slot: got mean time %s and %s, want at least a quarter less", one.Turn.Mean,
			two.Turn.Mean)
	}
	same := []string{"--load", "load.toml", "--days", "0.1", "--policy", "disinto", "--json"}
	once, _, _ := simulate(t, files, same...)
	if again, _, _ := simulate(t, files, same...); again != once {
		t.Error("the same seed gave two answers")
	}
	table, _, code := simulate(t, files, "--load", "load.toml", "--policy", "disinto,cron-5min", "--days", "0.3")
	if code != 0 || !strings.Contains(table, "priority 1 ") || !strings.Contains(table, "cron-5min") ||
		strings.Contains(table, "arc") || !strings.Contains(table, "no policy could be done before") {
		t.Errorf("got exit code %d:\n%s", code, table)
	}
}

// Each mistake is an error of one line that says what to do, and nothing is simulated.
func TestSimulateMistakes(t *testing.T) {
	for _, tt := range []struct {
		load, want string
		code       int
		args       []string
	}{
		{load: "[[issues]]\nper_day = 0", want: "[[issues]] table 1: per_day is 0, want more than 0"},
		{load: "[[issues]]\nper_day = 1\nper_hour = 2", want: "unknown key issues.per_hour"},
		{load: "[[issues]]\nper_day = 1\nagent = \"dev-c\"", want: `there is no "dev-c" in factory.toml`},
		{load: "[[issues]]\nper_day = 1\nrepo = \"a/b\"", want: `"a/b" is not one of owner/name`},
		{load: "[[issues]]\nper_day = 1\npriority = 11", want: "priority is 11"},
		{load: "[[issues]]\nper_day = 1\nsessions = 0.5", want: "sessions is 0.5"},
		{load: "[[issues]]\nper_day = 1\nfailures = 1.5", want: "failures is 1.5, want 0 to 0.9"},
		{load: "[[issues]]\nper_day =", want: "load.toml:2:"},
		{load: "", want: "no work: add an [[issues]] table"},
		{load: "[[issues]]\nper_day = 1\ntogether = -1", want: "together is -1, want 1 to 1000"},
		{load: strings.Repeat("[[issues]]\nper_day = -1\n", 30), want: "load.toml: 10 more mistakes"},
		{load: "[[issues]]\nper_day = nan", want: "per_day is NaN, want more than 0"},
		{load: "[[issues]]\nper_day = 1e-300", want: "no issue is filed in 7 days"},
		{load: strings.Repeat("[[issues]]\nper_day = 9999\n", 2), want: "about 139986 issues in 7 days, want at most 100000"},
		{load: strings.Repeat("# long\n", 1<<18), want: "load.toml: longer than 1048576 bytes"},
		{args: []string{"--policy", "magic"}, want: `there is no "magic"`, code: 2},
		{args: []string{"--days", "0"}, want: "--days: 0", code: 2},
		{args: []string{"--load", "nothing"}, want: "cannot read the load"},
		{args: []string{"--load", "", "--days", "0.00001"}, want: "no issue is filed in 1e-05 days"},
	} {
		files := map[string]string{"factory.toml": simulated, "load.toml": tt.load}
		if tt.code == 0 {
			tt.code = 1
		}
		out, complaint, code := simulate(t, files, append([]string{"--load", "load.toml"}, tt.args...)...)
		if code != tt.code || out != "" || !strings.Contains(complaint, tt.want) {
			t.Errorf("%q %v: got exit code %d, %q%q, want %q", tt.load, tt.args, code, out, complaint, tt.want)
		}
	}
}
