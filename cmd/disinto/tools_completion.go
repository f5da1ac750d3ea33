package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// addCompletions makes Cobra complete arguments and the values of flags by their names in the help, such as REF. Only a
// completion calls it, because Cobra keeps the functions of flags, and so the tree, until the process ends.
func addCompletions(c *cli, root *cobra.Command) {
	for _, cmd := range withMembers(root) {
		v := &values{c: c, cmd: cmd}
		if _, names, _ := strings.Cut(cmd.Use, " "); cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = func(
				_ *cobra.Command, before []string, typed string,
			) ([]cobra.Completion, cobra.ShellCompDirective) {
				return v.of(typed, argument(names, len(before))...)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			f.Usage = oneLine(usage)
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(f.Name,
				func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
					return v.of(typed, name)
				}))
		})
	}
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

// aside matches a flag in a command's arguments.
var aside = regexp.MustCompile(`--[a-z-]+ [A-Z]+ ?`)

// argument returns the possible names of the nth argument, counted from 0. args is in the form of a usage line, such as
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

// withMembers returns a command and all below it.
func withMembers(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, member := range cmd.Commands() {
		all = append(all, withMembers(member)...)
	}
	return all
}
