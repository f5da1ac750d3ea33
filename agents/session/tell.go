package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// People may tell a session something while it runs. Each message waits in the inbox until the CLI has finished a tool
// call; then the CLI is ended, and its conversation goes on with the message. One that comes when the CLI has ended by
// itself continues the conversation, too. A message counts as heard when the model has answered.

// errTold is the cause for which a run of the CLI is ended to hear a message.
var errTold = errors.New("a message waits")

// tellRest is the time from the end of a tool call to that of the CLI: codex reports a result before it stores it.
const tellRest = 500 * time.Millisecond

// told is how far a session is with its inbox.
type told struct {
	path  string // of the inbox; empty without one
	given int    // messages that the CLI was given
	heard int    // messages after which the model has answered
}

// messages returns all messages to the session, oldest first; none to a program of the operator's, which reads the
// inbox itself, and none to a review.
func (r *run) messages() []agents.Message {
	if r.told.path == "" || r.own() != nil || r.Kind == agents.KindReview {
		return nil
	}
	text, err := plainfile.Read(r.told.path, maxLeft)
	if err != nil {
		return nil
	}
	list, err := agents.ParseInbox(text)
	if err != nil {
		r.logf("%v", err)
	}
	return list[:min(len(list), agents.MostMessages)]
}

// waits reports whether a message waits for a conversation that can go on.
func (r *run) waits(conversation string) bool {
	return agents.ValidSessionID(conversation) && len(r.messages()) > r.told.given
}

// interrupt starts the timer that ends the CLI if its last event ended a tool call and a message waits, and stops it
// when the CLI has begun another call, or has ended by itself.
func (r *run) interrupt(timer *time.Timer, said *report) {
	switch {
	case said.Ended || len(said.repeats.open) > 0:
		timer.Stop()
	case said.finished && r.waits(said.Session):
		timer.Reset(tellRest)
	}
}

// withTold adds the messages to a prompt that its conversation does not have: for a new one, all of them.
func (r *run) withTold(prompt string, resumed bool) string {
	list, from := r.messages(), 0
	if resumed {
		from = min(r.told.heard, len(list))
	}
	for i := r.told.given; i < len(list); i++ {
		r.logf("told by %s: %s", firstWords(list[i].Author()), firstWords(r.post.hide(list[i].Text)))
	}
	if r.told.given = len(list); from == len(list) {
		return prompt
	}
	var b strings.Builder
	b.WriteString("People who may steer your work tell you this while you are at it. It comes between two tool calls, " +
		"and what you started in the background has ended.\n")
	for _, m := range list[from:] {
		fmt.Fprintf(&b, "\nFrom %s, %s:\n\n%s\n", firstWords(m.Author()), m.At.UTC().Format("15:04 MST"), quoted(m.Text))
	}
	b.WriteString("\nHeed it as you heed your task, and go on with that.")
	return joined(prompt, b.String())
}

// hear reports that the model has answered to what it was given.
func (r *run) hear() {
	if r.told.heard == r.told.given {
		return
	}
	r.told.heard = r.told.given
	r.logf("heard %s", counted(r.told.heard, "message", "messages"))
	r.show(agents.Doing{})
}

// runCLI runs the CLI, and lets its conversation go on while there are messages that it has not been given.
func (r *run) runCLI(ctx context.Context, c *call, prompt string) (*report, agents.Outcome) {
	if err := r.endSetup(ctx); err != nil {
		return &report{}, agents.Outcome{Result: agents.Failed, Reason: err.Error()}
	}
	if !c.Resume {
		r.task = prompt
	}
	for {
		said, out := r.runOnce(ctx, c, prompt)
		if said.What == forgotten && c.Resume && r.task != "" && ctx.Err() == nil {
			r.logf("%s has lost its conversation; a new one begins with the whole task", r.CLI)
			c = r.newCall(ctx)
			c.Session, c.Resume = newID(), false
			said, out = r.runOnce(ctx, c, joined(r.task, prompt))
		}
		if out.Result != agents.Done || ctx.Err() != nil || !r.waits(r.conversation) {
			return said, out
		}
		c = r.newCall(ctx)
		c.Session, c.Resume = r.conversation, true
		prompt = ""
	}
}
