package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// action runs a command after its flags were parsed.
type action func(ctx context.Context, c *cli, args []string) error

// command is a subcommand. To add one, write its file and add it to commands.
type command struct {
	name             string
	args             string // its arguments, as the usage line shows them
	minArgs, maxArgs int
	short            string // one line
	long             string // the rest of its help; may be empty
	hidden           bool   // for disinto's own processes: help does not list it
	setup            func(*pflag.FlagSet) action
}

// commands returns all subcommands, in the order of disinto help. It is a function because help, one of them, calls it.
func commands() []command {
	return []command{
		runCommand, execCommand, demoCommand, statusCommand, whyCommand, showCommand, historyCommand, reportCommand,
		checkCommand,
		initCommand, hireCommand, retireCommand, upstreamCommand,
		slingCommand, convoyCreateCommand, convoyListCommand, convoyStatusCommand, convoyStartCommand,
		convoyCancelCommand,
		fleetStatusCommand, fleetRebalanceCommand, fleetExportCommand,
		cancelCommand, retryCommand, releaseCommand, approveCommand, pauseCommand, resumeCommand, restartCommand, logsCommand,
		upgradeCommand,
		simulateCommand, auditVerifyCommand, mcpCommand(), versionCommand, completionCommand, helpCommand(),
		completeCommand(), manCommand(), agentCommand, sessionRunCommand, localforgeCommand, demoAgentCommand,
		checkUpgradeCommand, decideRunCommand,
	}
}

func hasCommand(name string) bool {
	return slices.ContainsFunc(commands(), func(c command) bool { return c.name == name })
}

func findCommand(name string) (*command, error) {
	for _, cmd := range commands() {
		if cmd.name == name {
			return &cmd, nil
		}
	}
	hint, group := "", ""
	for _, cmd := range commands() {
		if !cmd.hidden && near(name, cmd.name) {
			hint = ", did you mean " + cmd.name + "?"
			break
		}
	}
	if first, _, _ := strings.Cut(name, " "); isGroup(first) {
		group = " " + first
	}
	return nil, usagef("there is no command %q%s (disinto help%s lists them)", name, hint, group)
}

// members returns the commands of a group: convoy start belongs to the group convoy.
func members(group string) []command {
	return slices.DeleteFunc(commands(), func(c command) bool { return c.hidden || !strings.HasPrefix(c.name, group+" ") })
}

// isGroup reports whether a word is not a command but the first word of several commands.
func isGroup(name string) bool { return !hasCommand(name) && len(members(name)) > 0 }

// group handles a command line that names a group but none of its commands.
func (c *cli) group(name string, args []string) error {
	switch {
	case len(args) > 0 && (args[0] == "-h" || args[0] == "--help"):
		return help(context.Background(), c, []string{name})
	case len(args) == 0 || strings.HasPrefix(args[0], "-"):
		var names []string
		for _, cmd := range members(name) {
			names = append(names, cmd.name)
		}
		return usagef("name one of the commands %s (disinto help %s)", strings.Join(names, ", "), name)
	}
	_, err := findCommand(name + " " + args[0])
	return err
}

// flagValues describes the values of a flag, by its type.
var flagValues = map[string]string{
	"int": "a whole number", "uint64": "a whole number, not below 0", "float64": "a number", "bool": "true or false",
	"duration": "a time such as 90s or 2h",
}

// flagProblem describes a mistake in a flag. For a value that cannot be parsed, the parser's own message names Go's
// functions.
func flagProblem(flags *pflag.FlagSet, err error) string {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		if want := flagValues[bad.GetFlag().Value.Type()]; want != "" {
			return fmt.Sprintf("--%s: %q, want %s", bad.GetFlag().Name, bad.GetValue(), want)
		}
	}
	return err.Error() + suggestFlag(flags, err)
}

// suggestFlag returns a suggestion for the message about an unknown flag; "" if no flag is similar.
func suggestFlag(flags *pflag.FlagSet, err error) (hint string) {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	word := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	word, _, _ = strings.Cut(word, "=")
	flags.VisitAll(func(f *pflag.Flag) {
		if hint == "" && !f.Hidden && near(word, f.Name) {
			hint = ", did you mean --" + f.Name + "?"
		}
	})
	return hint
}

// near reports whether two words differ by one letter or by two swapped letters, or one is a prefix of the other.
func near(a, b string) bool {
	if len(a) >= 2 && (strings.HasPrefix(b, a) || strings.HasPrefix(a, b)) {
		return true
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	swapped := len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	return len(a) <= 1 && len(b) <= 1 || swapped
}

func (cmd *command) usage() string {
	usage := cmd.name
	if cmd.args != "" {
		usage += " " + cmd.args
	}
	if flags, _ := cmd.prepare(); flags.HasAvailableFlags() {
		usage += " [flags]"
	}
	return usage
}

// prepare returns the command's flags and the action that uses them. The flag set prints nothing itself: dispatch
// prints errors and help.
func (cmd *command) prepare() (*pflag.FlagSet, action) {
	flags := pflag.NewFlagSet(cmd.name, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags, cmd.setup(flags)
}

func (cmd *command) help(w io.Writer) {
	fmt.Fprintf(w, "disinto %s\n\n%s.\n", cmd.usage(), strings.ToUpper(cmd.short[:1])+cmd.short[1:])
	if cmd.long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(cmd.long))
	}
	if flags, _ := cmd.prepare(); flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\n%s", flags.FlagUsages())
	}
}

func helpCommand() command {
	return command{
		name: "help", args: "[COMMAND]", maxArgs: 2,
		short: "list the commands, or show the help of one",
		setup: func(*pflag.FlagSet) action { return help },
	}
}

func help(_ context.Context, c *cli, args []string) error {
	if len(args) > 0 {
		if isGroup(args[0]) && len(args) == 1 {
			listCommands(c.stdout, members(args[0]))
			return nil
		}
		cmd, err := findCommand(strings.Join(args, " "))
		if err != nil {
			return err
		}
		cmd.help(c.stdout)
		return nil
	}
	fmt.Fprintln(c.stdout, "disinto runs AI coding agents on the issues and pull requests of a Forgejo.")
	fmt.Fprintln(c.stdout)
	listCommands(c.stdout, commands())
	fmt.Fprintln(c.stdout)
	fmt.Fprintln(c.stdout, "disinto help COMMAND shows a command's arguments and flags. "+
		"Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not now.")
	return nil
}

// listCommands prints a line for each command that is not hidden.
func listCommands(w io.Writer, list []command) {
	for _, cmd := range list {
		if !cmd.hidden {
			fmt.Fprintf(w, "  disinto %-16s %s\n", cmd.name, cmd.short)
		}
	}
}
