package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completed is a supervisor with two threads, some agents, an issue in a session, one that waits, and a convoy.
func completed(t *testing.T) (state string) {
	t.Helper()
	return fakeSupervisor(t, map[string]string{
		"/v1/state": `{
			"threads": [{"name": "llama", "backend": "local"}, {"name": "anthropic", "backend": "anthropic"}],
			"agents": [
				{"name": "dev-qwen", "role": "dev", "thread": "llama"}, {"name": "dev-kimi", "role": "dev", "thread": "llama"},
				{"name": "review-sonnet", "role": "review", "thread": "anthropic"}, {"name": "$(reboot)", "role": "x;y"}],
			"sessions": [{"repo": "johba/harb", "number": 17, "title": "Ring \t the\u001b[2J bell"}],
			"queue": [{"repo": "johba/harb", "number": 18}, {"repo": "johba/harb", "kind": "schedule", "number": 0}],
			"repos": [{"name": "johba/harb"}],
			"unqueued": [{"repo": "johba/harb", "number": 7}], "recent": [{"repo": "johba/harb", "number": 17}]}`,
		"/v1/convoys": `{"convoys": [{"repo": "johba/harb", "number": 20, "title": "By mail"}]}`,
	})
}

func TestComplete(t *testing.T) {
	tests := []struct{ line, want string }{ // line: the words, of which the last is completed
		{"stat", "status\tshow threads, agents and sessions, and what waits and why"},
		{"bat", "batch\tcreate, follow"},
		{"hire", "hire-an-agent\t"},
		{"demo-a", ""},
		{"convoy sta", "status\tshow who|start\tstart a"},
		{"help convoy st", "status\t|start\t"},
		{"help star", "start\t"},
		{"help fl", "fleet\t"},
		{"status --w", "--watch\tupdate the output until interrupted"},
		{"status --", "--all|--watch|--config|--state|--address|--token-file|--json|--output|--help"},
		{"status -o ", "json|text"},
		{"status --output=j", "json"},
		{"status --config ", ":files"},
		{"status --config=/tm", ":files"},
		{"status --state ", ":dirs"},
		{"status --json=", ""},
		{"show ", "17\tRing the|18|7"},
		{"why 1", "17\tRing|18"},
		{"show 17 ", ""},
		{"show -- 1", "17\tRing|18"},
		{"show --json 1", "17|18"},
		{"logs ", "dev-kimi\tdev on llama|dev-qwen\tdev on llama|review-sonnet\treview on anthropic|17|18|7"},
		{"logs -f dev-k", "dev-kimi\tdev"},
		{"pause l", "llama\tlocal"},
		{"pause dev-q", "dev-qwen"},
		{"retire-an-agent rev", "review-sonnet"},
		{"hire-an-agent dev-new --thread l", "llama"},
		{"hire-an-agent x --type r", "review"},
		{"sling --role d", "dev"},
		{"sling --repo ", "johba/harb"},
		{"sling --depends-on 1", "17\tRing|18"},
		{"sling --title ", ""},
		{"convoy status ", "20\tBy mail"},
		{"convoy create mai", ":files"},
		{"convoy create --title T 17 1", "17|18|:files"},
		{"simulate --policy cr", "cron"},
		{"simulate --load ", ":files"},
		{"completion f", "fish"},
		{"frobnicate ", ""},
		{"convoy frobnicate ", ""},
		{"exec -- l", ""},
	}
	state := completed(t)
	for _, tt := range tests {
		words := strings.Split(tt.line, " ")
		got := disinto(t.Context(), []string{"DISINTO_STATE_DIR=" + state}, append([]string{"__complete"}, words...)...)
		answer, ending := cutDirective(t, got.stdout)
		lines := strings.Split(strings.TrimSuffix(answer+ending, "\n"), "\n")
		want := strings.Split(tt.want, "|")
		fits := len(lines) == len(want) && got.code == exitDone
		for i := range min(len(lines), len(want)) {
			fits = fits && strings.HasPrefix(lines[i], want[i]) && (want[i] != "" || lines[i] == "")
		}
		if !fits {
			t.Errorf("%q: got exit code %d, stderr %q, got %q, want %q", tt.line, got.code, got.stderr, lines, want)
		}
	}
}

// cutDirective returns a completion's answer without its last line, which tells the shell what to do, and that as a
// word.
func cutDirective(t *testing.T, answer string) (lines, word string) {
	t.Helper()
	i := strings.LastIndex(answer, ":")
	number, err := strconv.Atoi(strings.TrimSpace(answer[max(i, 0)+1:]))
	if err != nil {
		t.Fatalf("got %q, want a directive in the last line", answer)
	}
	switch d := cobra.ShellCompDirective(number) &^ cobra.ShellCompDirectiveKeepOrder; d {
	case cobra.ShellCompDirectiveDefault:
		word = ":files"
	case cobra.ShellCompDirectiveFilterDirs:
		word = ":dirs"
	case cobra.ShellCompDirectiveNoFileComp:
	default:
		t.Errorf("got the directive %d", d)
	}
	return answer[:i], word
}

// Cobra keeps a flag's completion function until the process ends: a tree that completes nothing has none.
func TestCompletionFunctions(t *testing.T) {
	for _, cmd := range withMembers(commands(testCLI(nil))) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := cmd.GetFlagCompletionFunc(f.Name); ok {
				t.Errorf("%s --%s has a completion function", cmd.CommandPath(), f.Name)
			}
		})
	}
}

// The completion scripts of earlier versions get answers in their form.
func TestCompleteOld(t *testing.T) {
	state := completed(t)
	for line, want := range map[string]string{
		"stat":                "status\tshow threads, agents and sessions, and what waits and why\n",
		"why 1":               "17\tRing the[2J bell\n18\n",
		"status --output = t": "text\n",
		"status --output =":   "json\ntext\n",
		"status --output=j":   "json\n",
		"status --config ":    ":files\n",
		"status --config=/tm": ":files\n",
		"status --state ":     ":dirs\n",
		"convoy create mai":   ":files\n",
		"frobnicate ":         "",
		"sling --title ":      "",
		"status --json --wat": "--watch\tupdate the output until interrupted\n",
	} {
		words := append([]string{"complete", "--"}, strings.Split(line, " ")...)
		got := disinto(t.Context(), []string{"DISINTO_STATE_DIR=" + state}, words...)
		if got != (result{stdout: want}) {
			t.Errorf("%q: got %+v, want %q", line, got, want)
		}
	}
	if got := disinto(t.Context(), nil, "complete", "--"); !strings.Contains(got.stdout, "status\t") {
		t.Errorf("without a word: got %+v", got)
	}
}

// Without a supervisor or with an invalid answer, a completion offers no values.
func TestCompleteAlone(t *testing.T) {
	for _, state := range []string{
		t.TempDir(), fakeSupervisor(t, nil),
		fakeSupervisor(t, map[string]string{"/v1/state": "[]"}),
	} {
		got := disinto(t.Context(), nil, "__complete", "why", "--state", state, "")
		if got.code != exitDone || got.stdout != ":36\n" {
			t.Errorf("got %+v, want no values", got)
		}
	}
}

// bashLibrary is the package bash-completion, which Cobra's script for bash uses.
const bashLibrary = "/usr/share/bash-completion/bash_completion"

// Each shell completes a flag, a supervisor's values and a file name. Text of strangers is data to the shell.
func TestShells(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "disinto")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "factory-x.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"PATH=" + dir + ":" + os.Getenv("PATH"), "DISINTO_STATE_DIR=" + completed(t), "HOME=" + dir, "TERM=dumb",
		"LC_ALL=C.UTF-8",
	}
	asks := map[string]string{ // scripts that complete each of $lines and print the results
		"bash": `source ` + bashLibrary + `; compopt() { :; } # it works only inside readline
			eval "$(disinto completion bash)"; [[ $(complete -p disinto) == *__start_disinto* ]] || exit 1
			while IFS= read -r COMP_LINE; do
				read -ra COMP_WORDS <<<"$COMP_LINE"; COMP_POINT=${#COMP_LINE} COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
				__start_disinto disinto; echo "${COMPREPLY[@]}"
			done <<<"$lines"`,
		"zsh": `zmodload zsh/zpty; zpty z zsh -f -i; zpty -w z 'PS1= RPS1=; autoload -U compinit; compinit -u -D; setopt no_beep
			eval "$(disinto completion zsh)"; said() { print -r "<$BUFFER>"; BUFFER= }; zle -N said; bindkey "^X" said; print ready-$((1+1))'
			zpty -r z out '*ready-2*'
			for line in "${(f)lines}"; do
				zpty -w -n z "$line"$'\t\x18'; zpty -r z out '*<*>*'; print -r -- "${${out##*<}%%>*}"
			done; zpty -d z`,
		"fish": `disinto completion fish | source
			for line in (string split \n "$lines"); complete -C "$line" | string split -f1 \t; end`,
	}
	lines := "disinto status --wat\ndisinto logs review\ndisinto why 17\ndisinto pause an\n" +
		"disinto batch status 2\ndisinto check --config " + dir + "/factory-"
	words := []string{"--watch", "review-sonnet", "17", "anthropic", "20", dir + "/factory-x.toml"}
	for shell, ask := range asks {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil || shell == "bash" && !exists(bashLibrary) {
				t.Skip("found no " + shell + " with completion")
			}
			want := slices.Clone(words)
			for i, line := range strings.Split(lines, "\n") {
				switch {
				case shell == "zsh": // prints the whole line after completion
					want[i] = line[:strings.LastIndex(line, " ")+1] + want[i]
				case shell == "bash" && i == 5:
					want[i] = "" // readline completes file names itself, outside the function
				}
			}
			flags := map[string][]string{"bash": {"--norc", "-c"}, "zsh": {"-f", "-c"}, "fish": {"--no-config", "-c"}}[shell]
			r := start(t, append(environ, "lines="+lines), append(append([]string{path}, flags...), ask)...)
			r.wait()
			var got []string
			for line := range strings.SplitSeq(strings.TrimSuffix(r.read(r.stdout), "\n"), "\n") {
				got = append(got, strings.TrimSpace(line))
			}
			if diff := cmp.Diff(want, got); diff != "" || strings.TrimSpace(r.read(r.stderr)) != "" {
				t.Errorf("(-want +got)\n%s\nstderr %q", diff, r.read(r.stderr))
			}
		})
	}
}

// The manual lists every visible command with its flags, and groff reads it without a warning.
func TestManual(t *testing.T) {
	got := disinto(t.Context(), nil, "man")
	for _, cmd := range everyCommand() {
		if has := strings.Contains(got.stdout, ".SS "+roff(cmd.UseLine())+"\n"); has == cmd.Hidden {
			t.Errorf("%s: in the manual: %v, hidden: %v", cmd.CommandPath(), has, cmd.Hidden)
		}
	}
	path, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("found no groff")
	}
	page := filepath.Join(t.TempDir(), "disinto.1")
	if err := os.WriteFile(page, []byte(got.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, []string{"PATH=" + os.Getenv("PATH")}, path, "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=78n", page)
	if code := r.wait(); code != 0 || r.read(r.stderr) != "" {
		t.Errorf("groff: got exit code %d and %s", code, r.read(r.stderr))
	}
	text := r.read(r.stdout)
	for _, want := range []string{
		"disinto batch create PLAN | --title TITLE REF... [flags]", "-o, --output FORMAT",
		"  ## Read an order from a mail {#parse}",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if diff := cmp.Diff(1, strings.Count(text, "EXIT STATUS")); diff != "" {
		t.Error(diff)
	}
}
