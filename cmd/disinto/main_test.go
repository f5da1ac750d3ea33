package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"github.com/spf13/cobra"
)

// TestMain makes the test binary disinto itself if it has arguments: the demo starts its forge and agents as separate
// processes, and the soak its evil agents.
func TestMain(m *testing.M) {
	lookupUser = func(name string) (*user.User, error) { return nil, user.UnknownUserError(name) }
	if len(os.Args) > 2 && os.Args[1] == misbehave {
		os.Exit(playManner(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == talks {
		os.Exit(playTalk(os.Args[2]))
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
	}
	// Tests with child processes mostly wait for them, so more of them run at the same time than there are
	// processors.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// storms reports whether every case runs, as in make check, or only the few of make test.
func storms() bool { return os.Getenv("DISINTO_STORMS") != "" }

// leftToStorms skips a test with a real supervisor in make test, where other tests check its rules in virtual time.
// With a real forge the test runs.
func leftToStorms(t *testing.T, others string) {
	t.Helper()
	if !storms() && os.Getenv("FORGE_TEST_URL") == "" {
		t.Skip("make check runs it: make test has " + others)
	}
}

// oneReaper returns the test binary's reaper. A process may have only one.
func oneReaper(t *testing.T) *process.Reaper {
	t.Helper()
	r, err := newReaper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// result is a command's output and exit code.
type result struct {
	code           int
	stdout, stderr string
}

// disinto runs a command in this process, with its own environment.
func disinto(ctx context.Context, environ []string, args ...string) result {
	var stdout, stderr bytes.Buffer
	c := testCLI(environ)
	c.stdout, c.stderr = &stdout, &stderr
	code := c.run(ctx, args)
	return result{code, stdout.String(), stderr.String()}
}

// testCLI returns a cli whose clock is at noon and whose output is dropped.
func testCLI(environ []string) *cli {
	return &cli{
		environ: environ, stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
		now: func() time.Time { return noon },
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		code   int
		stderr string // the whole, or its beginning if it ends in ...
		stdout string // a part; with !, a text that must be missing
	}{
		{
			name: "no command", code: 2,
			stderr: "disinto: name a command, such as disinto demo (disinto help lists the commands)",
		},
		{
			name: "unknown command", args: "frobnicate", code: 2,
			stderr: `disinto: there is no command "frobnicate" (disinto help lists them)`,
		},
		{
			name: "one letter off", args: "stauts", code: 2,
			stderr: `disinto: there is no command "stauts", did you mean status or start? (disinto help lists them)`,
		},
		{
			name: "hidden is not suggested", args: "localforg", code: 2,
			stderr: `disinto: there is no command "localforg" (disinto help lists them)`,
		},
		{
			name: "a question of an older supervisor", args: "decide-run /tmp/question.json", code: 1,
			stderr: "disinto: this disinto compares no decisions: remove decide from [factory]",
		},
		{
			name: "unknown flag", args: "status --jsno", code: 2,
			stderr: "disinto: unknown flag: --jsno, did you mean --json? (disinto help status)",
		},
		{
			name: "unknown flag with a value", args: "logs 1 --folow=yes", code: 2,
			stderr: "disinto: unknown flag: --folow, did you mean --follow? (disinto help logs)",
		},
		{
			name: "unknown flag, beginning of another", args: "status --wat", code: 2,
			stderr: "disinto: unknown flag: --wat, did you mean --watch? (disinto help status)",
		},
		{
			name: "long flag with one dash", args: "status -json", code: 2,
			stderr: "disinto: unknown shorthand flag: 'j' in -json, did you mean --json? (disinto help status)",
		},
		{
			name: "unknown flag like no other", args: "status --colour", code: 2,
			stderr: "disinto: unknown flag: --colour (disinto help status)",
		},
		{
			name: "output of no kind", args: "status -o yaml", code: 2,
			stderr: `disinto: invalid argument "yaml" for "-o, --output" flag: want json or text (disinto help status)`,
		},
		{
			name: "group alone", args: "fleet", code: 2,
			stderr: "disinto: name one of the commands fleet status, fleet rebalance, fleet export (disinto help fleet)",
		},
		{
			name: "help of a group", args: "help convoy",
			stdout: "  list        list the open convoys, one per line\n  status ",
		},
		{name: "help of a group has no other", args: "help convoy", stdout: "!fleet"},
		{name: "help flag of a group", args: "fleet --help", stdout: "  export "},
		{
			name: "group with one letter off", args: "convoy strat 12", code: 2,
			stderr: `disinto: there is no command "batch strat", did you mean batch start? (disinto help batch lists them)`,
		},
		{
			name: "group with a reference", args: "convoy 12", code: 2,
			stderr: `disinto: there is no command "batch 12" (disinto help batch lists them)`,
		},
		{
			name: "help of no member", args: "help convoy frobnicate", code: 2,
			stderr: `disinto: there is no command "batch frobnicate" (disinto help batch lists them)`,
		},
		{
			name: "flag without value", args: "status --state", code: 2,
			stderr: "disinto: flag needs an argument: --state (disinto help status)",
		},
		{name: "too many arguments", args: "status now", code: 2, stderr: "disinto: usage: disinto status [flags]"},
		{name: "too few arguments", args: "show", code: 2, stderr: "disinto: usage: disinto show REF [flags]"},
		{
			name: "no reference", args: "cancel twelve", code: 2,
			stderr: `disinto: cannot read "twelve" as an issue: write 12, #12 or owner/name#12`,
		},
		{
			name: "escape sequences are not passed on", args: "\x1b[31mred", code: 2,
			stderr: `disinto: there is no command "\x1b[31mred" (disinto help lists them)`,
		},
		{name: "help", args: "help", stdout: "  status "},
		{name: "help flag", args: "--help", stdout: "  status "},
		{name: "help hides what is not for people", args: "help", stdout: "!demo-agent"},
		{name: "help of a command", args: "help status", stdout: "--watch"},
		{name: "help flag of a command", args: "status --help", stdout: "--watch"},
		{
			name: "help of what is not there", args: "help frobnicate", code: 2,
			stderr: `disinto: there is no command "frobnicate" (disinto help lists them)`,
		},
		{
			name: "help of a command with an argument", args: "help status now", code: 2,
			stderr: `disinto: there is no command "status now" (disinto help status lists them)`,
		},
		{
			name: "two commands are similar", args: "retary", code: 2,
			stderr: `disinto: there is no command "retary", did you mean retry or restart? (disinto help lists them)`,
		},
		{
			name: "unknown command with a help flag", args: "frobnicate --help", code: 2,
			stderr: `disinto: there is no command "frobnicate" (disinto help lists them)`,
		},
		{
			name: "too many arguments of Cobra's command", args: "completion bash now", code: 2,
			stderr: "disinto: usage: disinto completion bash",
		},
		{
			name: "no such shell", args: "completion elvish", code: 2,
			stderr: `disinto: there is no command "completion elvish" (disinto help completion lists them)`,
		},
		{
			name: "version has no flags", args: "--version --json", code: 2,
			stderr: "disinto: unknown flag: --json (disinto help version)",
		},
		{name: "version", args: "version", stdout: "disinto "},
		{name: "version flag", args: "--version", stdout: "disinto "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := disinto(t.Context(), nil, strings.Fields(tt.args)...)
			if got.code != tt.code {
				t.Errorf("got exit code %d, want %d", got.code, tt.code)
			}
			if want := strings.TrimPrefix(tt.stderr+"\n", "\n"); got.stderr != want {
				t.Errorf("got stderr %q, want %q", got.stderr, want)
			}
			if part, absent := strings.CutPrefix(tt.stdout, "!"); strings.Contains(got.stdout, part) == absent {
				t.Errorf("stdout does not match %q:\n%s", tt.stdout, got.stdout)
			}
		})
	}
}

// A name or number that nobody knows is a failure; what no factory could understand is wrong usage, as is any unknown
// flag. Each command that takes a name has rows here.
func TestUnknownNames(t *testing.T) {
	state := serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"ref":"nobody"`) {
			status = http.StatusBadRequest // as a supervisor answers
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":"there is no such thing"}`)
	}))
	lines := map[int]string{
		exitFailed: `show 99; why 99; why nobody; why 99 --until; why 99 --at -1h; logs 99; logs nobody; logs 99 --session x;
			history --agent nobody; history --repo no/body; start 99; start nobody; sling 99; tell 99 x; cancel 99; retry 99;
			retry --agent nobody; retry --repo no/body; release 99; approve 99; pause nobody; pause no/body; resume nobody;
			restart nobody; stop nobody; batch create 99 98 --title x; batch start 99; batch status 99; batch cancel 99`,
		exitUsage: `show nobody; start no/body; sling no/body; tell nobody x; cancel nobody; release nobody; approve nobody;
			batch create nobody 98 --title x; history --since x; history --outcome x; report --by x; logs 99 --lines -1`,
	}
	seen := make(map[string]bool)
	for code, all := range lines {
		for line := range strings.SplitSeq(all, ";") {
			args := strings.Fields(line)
			cmd, _, _ := commands(testCLI(nil)).Find(args)
			seen[cmd.CommandPath()] = true
			got := disinto(t.Context(), nil, append(args, "--state", state)...)
			if got.code != code || got.stdout != "" || got.stderr == "" {
				t.Errorf("%s: got exit code %d, want %d; stdout %q, stderr %q", line, got.code, code, got.stdout, got.stderr)
			}
		}
	}
	names := regexp.MustCompile(`REF|AGENT|SERVICE|THREAD|REPO`)
	for _, cmd := range everyCommand() {
		if names.MatchString(cmd.Use) && !cmd.Hidden && cmd.GroupID != "Set it up:" && !seen[cmd.CommandPath()] {
			t.Errorf("%s takes a name and has no row", cmd.CommandPath())
		}
		if got := disinto(t.Context(), nil, append(strings.Fields(cmd.CommandPath())[1:], "--frobnicate")...); !cmd.Hidden &&
			got.code != exitUsage {
			t.Errorf("%s --frobnicate: got exit code %d, want %d", cmd.CommandPath(), got.code, exitUsage)
		}
	}
}

// everyCommand returns all commands that can be run, those of Cobra's completion scripts excepted.
func everyCommand() []*cobra.Command {
	return slices.DeleteFunc(withMembers(commands(testCLI(nil))), func(cmd *cobra.Command) bool {
		return !cmd.Runnable() || cmd.Parent().Name() == "completion"
	})
}

// Every command has a help text that fits a terminal. The golden file has all of them.
func TestHelp(t *testing.T) {
	lines := []string{"help", "help batch", "help fleet", "help completion"}
	for _, cmd := range everyCommand() {
		lines = append(lines, strings.TrimPrefix(helpOf(cmd), "disinto "))
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: got the short text %q, want one without a full stop", cmd.CommandPath(), cmd.Short)
		}
	}
	var all strings.Builder
	for _, line := range lines {
		help := disinto(t.Context(), nil, strings.Fields(line)...).stdout
		all.WriteString("$ disinto " + line + "\n" + help + "\n")
		for text := range strings.Lines(help) {
			if n := screen.Columns(strings.TrimSuffix(text, "\n")); n > 80 {
				t.Errorf("%s has a line of %d columns: %s", line, n, text)
			}
		}
	}
	golden(t, filepath.Join("testdata", "help.txt"), all.String())
}

// The program accepts the examples in its help.
func TestExamples(t *testing.T) {
	examples := 0
	for _, cmd := range everyCommand() {
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			at := strings.LastIndex(line, " disinto ")
			if at < 0 {
				continue
			}
			examples++
			line, _, _ = strings.Cut(line[at+len(" disinto "):], " >")
			words := strings.Fields(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(line, "QUOTED"))
			found, rest, err := commands(testCLI(nil)).Find(words)
			if err == nil {
				err = errors.Join(found.ParseFlags(rest), found.ValidateArgs(found.Flags().Args()))
			}
			if err != nil || found.CommandPath() != cmd.CommandPath() {
				t.Errorf("%s: the example %q is one of %s: %v", cmd.CommandPath(), line, found.CommandPath(), err)
			}
		}
	}
	if examples < 20 {
		t.Errorf("found only %d examples", examples)
	}
}

// Each command with --json also has -o json, and no other.
func TestOutputFlag(t *testing.T) {
	for _, cmd := range everyCommand() {
		asJSON, output := cmd.Flags().Lookup("json"), cmd.Flags().ShorthandLookup("o")
		if (asJSON == nil) != (output == nil) {
			t.Errorf("%s has only one of --json and -o", cmd.CommandPath())
		}
		if asJSON == nil || output == nil {
			continue
		}
		for _, say := range []string{"json", "text"} {
			if err := cmd.ParseFlags([]string{"-o", say}); err != nil ||
				asJSON.Value.String() != strconv.FormatBool(say == "json") {
				t.Errorf("%s -o %s: got --json = %s (%v)", cmd.CommandPath(), say, asJSON.Value, err)
			}
		}
	}
}
