package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// completeCommand serves the completion scripts of earlier versions, which may still be installed.
func completeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "complete -- WORD...", Hidden: true, DisableFlagParsing: true,
		Short: "print the completions of a command line's last word, for old scripts",
		RunE: func(cmd *cobra.Command, args []string) error {
			words := joinValues(args[min(1, len(args)):])
			if len(words) == 0 {
				words = []string{""}
			}
			var out bytes.Buffer
			asked := *c
			asked.stdout, asked.stderr = &out, io.Discard
			asked.run(cmd.Context(), append([]string{cobra.ShellCompRequestCmd}, words...))
			_, err := io.WriteString(c.stdout, oldAnswer(out.String()))
			return err
		},
	}
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

// oldAnswer turns Cobra's answer, whose last line is a number, into that of the old scripts: without completions, a
// word makes the shell complete names itself.
func oldAnswer(answer string) string {
	end := strings.LastIndex(answer, ":")
	number, err := strconv.Atoi(strings.TrimSpace(answer[end+1:]))
	directive := cobra.ShellCompDirective(number)
	switch {
	case end != 0 || err != nil:
		return answer[:max(end, 0)]
	case directive&cobra.ShellCompDirectiveFilterDirs != 0:
		return ":dirs\n"
	case directive&cobra.ShellCompDirectiveNoFileComp == 0:
		return ":files\n"
	}
	return ""
}
