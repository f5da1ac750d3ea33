package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bashLibrary is the package bash-completion, which Cobra's script for bash uses.
const bashLibrary = "/usr/share/bash-completion/bash_completion"

// Each shell completes a command, a flag and a file name.
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
		"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb",
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
	lines := "disinto status --wat\ndisinto simu\ndisinto check --config " + dir + "/factory-"
	words := []string{"--watch", "simulate", dir + "/factory-x.toml"}
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
				case shell == "bash" && i == 2:
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
