package main

import "codeberg.org/johba/disinto/supervisor/control"

var cancelCommand = command{
	name: "cancel", args: "REF", minArgs: 1, maxArgs: 1,
	short: "end the session on an issue or pull request and label it cancelled",
	long: `
REF is 12, #12 or owner/name#12. When the answer comes, nothing of the session
is left, the claim is off, and nothing starts on it any more. It stays open, and
what depends on it stays blocked. Open pull requests of agents for an issue are
cancelled with it. disinto retry takes it back.

Exits 3 when the session ended but the forge does not answer: the label is
written when it does.`,
	setup: telling("/v1/cancel", itemOf),
}

var retryCommand = command{
	name: "retry", args: "REF", minArgs: 1, maxArgs: 1,
	short: "let an issue or pull request begin anew",
	long: `
REF is 12, #12 or owner/name#12. Forgets failed attempts, cool-downs, refusals,
review rounds and a rejected pull request, takes off the labels blocked,
needs-human, needs-answer and cancelled, and puts backlog back on an issue
without it. Open pull requests of agents for an issue are included.`,
	setup: telling("/v1/retry", itemOf),
}

var releaseCommand = command{
	name: "release", args: "REF", minArgs: 1, maxArgs: 1,
	short: "take our claim off, and leave the issue in the queue",
	long: `
REF is 12, #12 or owner/name#12. A session on it is ended first. No attempt is
counted; the first free agent takes it a minute later. What another
supervisor with the same accounts holds is taken from it: do that only when that
one is gone.`,
	setup: telling("/v1/release", itemOf),
}

var approveCommand = command{
	name: "approve", args: "REF", minArgs: 1, maxArgs: 1,
	short: "approve the plan of an issue, which then goes on",
	long: `
REF is 12, #12 or owner/name#12. The same as a thumbs-up to the comment with the
plan. To send the plan back, write a comment below it.`,
	setup: telling("/v1/approve", itemOf),
}

func itemOf(args []string) (any, error) {
	return control.ItemRequest{Ref: args[0]}, checkRef(args[0])
}
