package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help lists commands in the order of their use, not by name.
func init() { cobra.EnableCommandSorting = false }

// commands returns the tree of all commands. Each command line gets a new one: flags keep their values, and mcp runs
// command lines at the same time.
func commands(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use: "disinto", Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true,
		Short: "run AI coding agents on the issues and pull requests of a Forgejo",
		Long: `
disinto runs AI coding agents on the issues and pull requests of a Forgejo.

Exit codes: 0 done, 1 failed or an unknown name, 2 wrong usage, 3 not now.`,
	}
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(flagError)
	addGroup(root, "Run the factory:", runCommand(c), execCommand(c), demoCommand(c), upgradeCommand(c),
		checkUpgradeCommand(c), agentCommand(c), sessionRunCommand(c), localforgeCommand(c), demoAgentCommand(c),
		decideRunCommand(c))
	addGroup(root, "Look at it:", statusCommand(c), whyCommand(c), showCommand(c), historyCommand(c), reportCommand(c),
		logsCommand(c))
	addGroup(root, "Steer it:", startCommand(c), batchCommand(c), tellCommand(c), cancelCommand(c), retryCommand(c),
		releaseCommand(c), approveCommand(c), pauseCommand(c), drainCommand(c), resumeCommand(c), adoptCommand(c),
		restartCommand(c), stopCommand(c), fleetCommand(c))
	addGroup(root, "Set it up:", initCommand(c), checkCommand(c), hireCommand(c), retireCommand(c), upstreamCommand(c))
	addGroup(root, "Tools:", simulateCommand(c), auditCommand(c), mcpCommand(c), versionCommand(c), manCommand(c),
		completeCommand(c))
	root.SetUsageTemplate(usageTemplate(root))
	for _, cmd := range withMembers(root) {
		cmd.Long = strings.TrimSpace(sentence(cmd) + cmd.Long)
		cmd.Example = strings.Trim(cmd.Example, "\n")
	}
	addDefaultCommands(root)
	for _, cmd := range withMembers(root) {
		cmd.Flags().SortFlags = false
		cmd.SuggestionsMinimumDistance = 2
		cmd.DisableFlagsInUseLine = !cmd.Flags().HasAvailableFlags()
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// sharedFlags are the flags of most commands. The help lists them below a command's own.
var sharedFlags = []string{"config", "state", "address", "token-file", "json", "output", "help"}

func init() {
	part := func(cmd *cobra.Command, isShared bool) *pflag.FlagSet {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		inTwo := cmd.LocalFlags().Lookup("config") != nil
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if (inTwo && slices.Contains(sharedFlags, f.Name)) == isShared {
				set.AddFlag(f)
			}
		})
		return set
	}
	cobra.AddTemplateFunc("ownFlags", func(cmd *cobra.Command) *pflag.FlagSet { return part(cmd, false) })
	cobra.AddTemplateFunc("sharedFlags", func(cmd *cobra.Command) *pflag.FlagSet { return part(cmd, true) })
}

// usageTemplate returns Cobra's template with a command's own flags above those of most commands.
func usageTemplate(root *cobra.Command) string {
	const flags = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	before, after, found := strings.Cut(root.UsageTemplate(), flags)
	if !found {
		panic("Cobra's template of usage has changed")
	}
	const own = "{{with ownFlags .}}{{if .HasAvailableFlags}}Flags:\n{{.FlagUsages | trimTrailingWhitespaces}}" +
		"{{if $.LocalFlags.Lookup \"config\"}}\n\n{{end}}{{end}}{{end}}"
	const most = "{{with sharedFlags .}}{{if .HasAvailableFlags}}" +
		"Flags of most commands:\n{{.FlagUsages | trimTrailingWhitespaces}}{{end}}{{end}}"
	return before + own + most + after
}

// addGroup adds commands under a heading of the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		root.AddCommand(cmd)
	}
	root.SetHelpCommandGroupID(title)
	root.SetCompletionCommandGroupID(title)
}

// sentence returns the first sentence of a command's help, which is its line in the list of commands.
func sentence(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + ".\n"
}

// addDefaultCommands adds Cobra's own commands, help and completion. Cobra's help exits 0 if there is no such command.
func addDefaultCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.CompletionOptions.DisableNoDescFlag = true
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Use, cmd.Short, cmd.Long = "help [COMMAND]", "show the help of a command", "Show the help of a command."
			cmd.RunE = func(_ *cobra.Command, words []string) error {
				about, rest, err := root.Find(words)
				if err != nil || len(rest) > 0 {
					return unknownCommand(about, rest)
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		case "completion":
			cmd.Short, cmd.Long = "print a completion script for bash, zsh, fish or PowerShell", completionHelp
		}
	}
}

const completionHelp = `Print a completion script for bash, zsh, fish or PowerShell.

With the script in the shell's start-up file, the TAB key completes commands,
flags, and the names and numbers of the running factory. The help of each shell,
such as disinto help completion bash, says where to put it.`

// usageArgs returns a check of a command's arguments whose error is the usage line, with exit code 2.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check != nil && check(cmd, args) != nil {
			return usagef("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// helpOf returns the command line that shows a command's help.
func helpOf(cmd *cobra.Command) string {
	return "disinto help" + strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name())
}

// unknownCommand returns the error of a command line that names no command: words are what follows the last command
// that it names, the program or a group such as batch.
func unknownCommand(group *cobra.Command, words []string) error {
	if len(words) == 0 || strings.HasPrefix(words[0], "-") && group.HasParent() {
		var names []string
		for _, cmd := range group.Commands() {
			names = append(names, strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "))
		}
		return usagef("name one of the commands %s (%s)", strings.Join(names, ", "), helpOf(group))
	}
	prefix := strings.TrimPrefix(group.CommandPath()+" ", group.Root().Name()+" ")
	like := group.SuggestionsFor(words[0])
	for i := range like {
		like[i] = prefix + like[i]
	}
	hint := ""
	if len(like) > 0 {
		hint = ", did you mean " + strings.Join(like, " or ") + "?"
	}
	return usagef("there is no command %q%s (%s lists them)", prefix+words[0], hint, helpOf(group))
}

// flagError returns the error of a command line with a wrong flag.
func flagError(cmd *cobra.Command, err error) error {
	return usagef("%s (%s)", flagProblem(cmd.Flags(), err), helpOf(cmd))
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
