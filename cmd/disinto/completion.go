package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// The scripts call `disinto complete` at each key, and so always match the commands of the installed version.
var (
	//go:embed completion/disinto.bash
	bashCompletion string
	//go:embed completion/disinto.zsh
	zshCompletion string
	//go:embed completion/disinto.fish
	fishCompletion string
)

// shells are the shells with a completion script.
var shells = []struct{ name, script string }{
	{"bash", bashCompletion}, {"zsh", zshCompletion}, {"fish", fishCompletion},
}

func shellNames() (names []string) {
	for _, s := range shells {
		names = append(names, s.name)
	}
	return names
}

var completionCommand = command{
	name: "completion", args: "SHELL", minArgs: 1, maxArgs: 1,
	short: "print a completion script for bash, zsh or fish",
	long: `
The script completes commands, flags and, if a supervisor is running, the names
of threads and agents and the numbers of issues. To install it:

  bash   disinto completion bash >/etc/bash_completion.d/disinto
  zsh    disinto completion zsh >/usr/local/share/zsh/site-functions/_disinto
  fish   disinto completion fish >~/.config/fish/completions/disinto.fish`,
	setup: func(*pflag.FlagSet) action {
		return func(_ context.Context, c *cli, args []string) error {
			for _, s := range shells {
				if s.name == args[0] {
					_, err := io.WriteString(c.stdout, s.script)
					return err
				}
			}
			return usagef("there is no completion for %q, only for %s", args[0], strings.Join(shellNames(), ", "))
		}
	},
}

// completeCommand is a function because it reads the list of commands, which includes it.
func completeCommand() command {
	return command{
		name: "complete", args: "-- WORD...", maxArgs: 1 << 30, hidden: true,
		short: "print the completions of a command line's last word, for shells",
		setup: func(flags *pflag.FlagSet) action {
			flags.SetInterspersed(false)
			return func(ctx context.Context, c *cli, words []string) error {
				for _, line := range completions(ctx, c, words) {
					fmt.Fprintln(c.stdout, line)
				}
				return nil
			}
		},
	}
}

// Completions that the shell makes itself.
const (
	fileNames = ":files"
	dirNames  = ":dirs"
)

// candidate is a possible completion. about describes it, and may be empty.
type candidate struct{ word, about string }

// completions returns the lines for a shell: a word and, after a tab, its description.
func completions(ctx context.Context, c *cli, words []string) (lines []string) {
	words = joinValues(words)
	if len(words) == 0 {
		words = []string{""}
	}
	last, own := words[len(words)-1], ""
	for _, found := range candidates(ctx, c, words[:len(words)-1], last) {
		typed := last
		if strings.HasPrefix(typed, "-") && !strings.HasPrefix(found.word, "-") { // the value in --flag=value
			_, typed, _ = strings.Cut(typed, "=")
		}
		switch {
		case found.word == fileNames || found.word == dirNames:
			own = found.word
		case !strings.HasPrefix(found.word, typed):
		case found.about == "":
			lines = append(lines, found.word)
		default:
			lines = append(lines, found.word+"\t"+oneLine(found.about))
		}
	}
	if len(lines) == 0 && own != "" {
		return []string{own}
	}
	return lines
}

// joinValues joins --flag=value again, which bash splits into three words.
func joinValues(words []string) (joined []string) {
	for i := 0; i < len(words); i++ {
		if words[i] == "=" && len(joined) > 0 && strings.HasPrefix(joined[len(joined)-1], "--") {
			value := ""
			if i+1 < len(words) {
				value = words[i+1]
			}
			joined[len(joined)-1] += "=" + value
			i++
			continue
		}
		joined = append(joined, words[i])
	}
	return joined
}

// longestAbout limits a description, in characters: a shell shows one line per completion.
const longestAbout = 60

// oneLine turns untrusted text, such as an issue's title, into a description.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(screen.Clean(text)), " ")
	if runes := []rune(text); len(runes) > longestAbout {
		text = string(runes[:longestAbout-1]) + "…"
	}
	return text
}

// candidates returns the possible words after those in before. last is the beginning of the word.
func candidates(ctx context.Context, c *cli, before []string, last string) []candidate {
	if len(before) == 0 {
		return firstWords(commands())
	}
	name := before[0]
	if isGroup(name) && len(before) == 1 {
		return secondWords(name)
	}
	if name == "help" {
		if len(before) == 2 && isGroup(before[1]) {
			return secondWords(before[1])
		}
		return firstWords(commands())
	}
	rest := before[1:]
	if isGroup(name) {
		name, rest = name+" "+before[1], before[2:]
	}
	cmd, err := findCommand(name)
	if err != nil {
		return nil
	}
	return cmd.candidates(ctx, c, rest, last)
}

// firstWords returns the commands and groups.
func firstWords(list []command) (found []candidate) {
	for _, cmd := range list {
		first, _, inGroup := strings.Cut(cmd.name, " ")
		about := cmd.short
		if inGroup {
			var names []string
			for _, m := range members(first) {
				names = append(names, strings.TrimPrefix(m.name, first+" "))
			}
			about = strings.Join(names, ", ")
		}
		if w := (candidate{first, about}); !cmd.hidden && !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	return found
}

func secondWords(group string) (found []candidate) {
	for _, cmd := range members(group) {
		found = append(found, candidate{strings.TrimPrefix(cmd.name, group+" "), cmd.short})
	}
	return found
}

// candidates returns the possible words of a command after its name and the words in before.
func (cmd *command) candidates(ctx context.Context, c *cli, before []string, last string) []candidate {
	flags, _ := cmd.prepare()
	n, pending, ended := readBefore(flags, before)
	v := &values{c: c, cmd: cmd, flags: flags}
	flag, _, hasValue := strings.Cut(last, "=")
	switch {
	case pending != nil:
		return v.of(ctx, valueName(pending))
	case !ended && hasValue && strings.HasPrefix(last, "--"):
		if f := flags.Lookup(flag[2:]); f != nil && f.NoOptDefVal == "" {
			return v.of(ctx, valueName(f))
		}
		return nil
	case !ended && strings.HasPrefix(last, "-"):
		return flagWords(flags)
	case n >= cmd.maxArgs:
		return nil
	}
	return v.of(ctx, argument(cmd.args, n)...)
}

// readBefore parses the words before the one to complete, and ignores mistakes: it sets flags, n counts the arguments,
// pending is the flag whose value comes next, and ended reports whether -- has ended the flags.
func readBefore(flags *pflag.FlagSet, before []string) (n int, pending *pflag.Flag, ended bool) {
	for _, word := range before {
		value, hasValue := "", false
		var f *pflag.Flag
		switch {
		case pending != nil:
			_ = pending.Value.Set(word) // the command itself reports a mistake
			pending = nil
			continue
		case ended || !strings.HasPrefix(word, "-") || word == "-":
			n++
			continue
		case word == "--":
			ended = true
			continue
		case strings.HasPrefix(word, "--"):
			word, value, hasValue = strings.Cut(word, "=")
			f = flags.Lookup(word[2:])
		default:
			f = flags.ShorthandLookup(word[len(word)-1:])
		}
		switch {
		case f == nil:
		case hasValue:
			_ = f.Value.Set(value)
		case f.NoOptDefVal == "":
			pending = f
		}
	}
	return n, pending, ended
}

func flagWords(flags *pflag.FlagSet) (found []candidate) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			_, usage := pflag.UnquoteUsage(f)
			found = append(found, candidate{"--" + f.Name, usage})
		}
	})
	return append(found, candidate{"--help", "show the command's help"})
}

// valueName is the name of a flag's value in its help, such as FILE.
func valueName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return name
}

// aside matches a flag in a command's arguments.
var aside = regexp.MustCompile(`--[a-z-]+ [A-Z]+ ?`)

// argument returns the possible names of the nth argument, counted from 0. args is in the form of command.args, such as
// PLAN | --title TITLE REF...
func argument(args string, n int) (names []string) {
	args = aside.ReplaceAllString(strings.ReplaceAll(args, " | ", "|"), "")
	fields := strings.Fields(args)
	if n >= len(fields) && strings.HasSuffix(args, "...") {
		n = len(fields) - 1
	}
	if n >= len(fields) {
		return nil
	}
	for name := range strings.SplitSeq(fields[n], "|") {
		names = append(names, strings.Trim(name, "[].-"))
	}
	return names
}
