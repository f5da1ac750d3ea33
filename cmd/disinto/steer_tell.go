package main

import (
	"strings"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
)

func tellCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "tell REF TEXT", Args: cobra.MinimumNArgs(2),
		Short: "tell the running session of an item something",
		Long: `
REF is 12, #12 or owner/name#12. The session that writes for the issue or pull
request hears TEXT after its next finished tool call, in the conversation that
it has. disinto show says when. What a session does not hear before it ends, the
next one does. A session can be told five times, up to 4 kB each; reviews, and
sessions on another machine, cannot.`,
		Example: `
  disinto tell 12 "use the existing parser in internal/toml"`,
	}, "/v1/tell", func(args []string) (any, error) {
		return control.TellRequest{Ref: args[0], Text: strings.Join(args[1:], " ")}, checkRef(args[0])
	})
}
