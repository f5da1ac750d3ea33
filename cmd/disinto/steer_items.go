package main

import (
	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
)

func releaseCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "release REF", Args: cobra.ExactArgs(1),
		Short: "release the claim on an item, which stays in the queue",
		Long: `
REF is 12, #12 or owner/name#12. Ends a session on the item first. The session
does not count as an attempt. After a minute, the first free agent takes the
item. release also removes the claim of another supervisor with the same
accounts: do that only if that supervisor is gone.`,
	}, "/v1/release", itemOf)
}

func approveCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "approve REF", Args: cobra.ExactArgs(1),
		Short: "approve the plan of an issue; work on the issue continues",
		Long: `
REF is 12, #12 or owner/name#12. A thumbs-up on the comment with the plan does
the same. To reject the plan, comment below it.`,
	}, "/v1/approve", itemOf)
}

func itemOf(args []string) (any, error) {
	return control.ItemRequest{Ref: args[0]}, checkRef(args[0])
}
