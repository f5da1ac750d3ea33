package main

import (
	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
)

func cancelCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "cancel REF", Args: cobra.ExactArgs(1),
		Short: "end the session on an item and label it cancelled",
		Long: `
REF is 12, #12 or owner/name#12. When the command returns, all processes of the
session have ended, the claim is released, and no session can start on the item
any more. The item stays open, and issues that depend on it stay blocked.
Cancelling an issue also cancels the agents' open pull requests for it. disinto
retry undoes the cancellation.

Exits 3 if the session ended but the forge does not answer: the label is written
when it does.`,
	}, "/v1/cancel", itemOf)
}

func retryCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "retry REF", Args: cobra.ExactArgs(1),
		Short: "make an issue or pull request eligible again",
		Long: `
REF is 12, #12 or owner/name#12. Forgets failed attempts, back-off, refusals,
review rounds and a rejected pull request. Removes the labels blocked,
needs-human, needs-answer and cancelled, and adds backlog to an issue without
it. Retrying an issue also retries the agents' open pull requests for it.`,
	}, "/v1/retry", itemOf)
}

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
