package main

import "codeberg.org/johba/disinto/supervisor/control"

var cancelCommand = command{
	name: "cancel", args: "REF", minArgs: 1, maxArgs: 1,
	short: "end the session on an issue or pull request and label it cancelled",
	long: `
REF is 12, #12 or owner/name#12. When the command returns, all processes of the
session have ended, the claim is released, and no session can start on the item
any more. The item stays open, and issues that depend on it stay blocked.
Cancelling an issue also cancels the agents' open pull requests for it. disinto
retry undoes the cancellation.

Exits 3 if the session ended but the forge does not answer: the label is written
when it does.`,
	setup: telling("/v1/cancel", itemOf),
}

var retryCommand = command{
	name: "retry", args: "REF", minArgs: 1, maxArgs: 1,
	short: "make an issue or pull request eligible again",
	long: `
REF is 12, #12 or owner/name#12. Forgets failed attempts, cool-downs, refusals,
review rounds and a rejected pull request. Removes the labels blocked,
needs-human, needs-answer and cancelled, and adds backlog to an issue without
it. Retrying an issue also retries the agents' open pull requests for it.`,
	setup: telling("/v1/retry", itemOf),
}

var releaseCommand = command{
	name: "release", args: "REF", minArgs: 1, maxArgs: 1,
	short: "release the claim on an item, which stays in the queue",
	long: `
REF is 12, #12 or owner/name#12. Ends a session on the item first. The session
does not count as an attempt. After a minute, the first free agent takes the
item. release also removes the claim of another supervisor with the same
accounts: do that only if that supervisor is gone.`,
	setup: telling("/v1/release", itemOf),
}

var approveCommand = command{
	name: "approve", args: "REF", minArgs: 1, maxArgs: 1,
	short: "approve the plan of an issue; work on the issue continues",
	long: `
REF is 12, #12 or owner/name#12. A thumbs-up on the comment with the plan does
the same. To reject the plan, comment below it.`,
	setup: telling("/v1/approve", itemOf),
}

func itemOf(args []string) (any, error) {
	return control.ItemRequest{Ref: args[0]}, checkRef(args[0])
}
