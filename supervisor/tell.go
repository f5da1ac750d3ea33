package supervisor

import (
	"context"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// maxLogin bounds the name of a message's author, in bytes.
const maxLogin = 100

// tell answers POST /v1/tell.
func (cm *commands) tell(_ context.Context, r control.TellRequest, report *control.Report) error {
	item, err := cm.item("", r.Ref)
	if err != nil {
		return err
	}
	t, err := cm.tellSession(&ledger.Tell{
		ID: time.Now().UnixNano(), Ref: ledger.Ref(item), By: r.By[:min(len(r.By), maxLogin)], Text: r.Text,
	})
	if err == nil {
		report.Subject = item.String()
		report.Add("%s", t.Words())
	}
	return err
}

// tell tells the session on a comment's item what the comment says. Its answer changes as the message is heard, so it
// is the ledger's.
func (cv *conversation) tell(_ context.Context, said forge.CommandComment) (string, error) {
	if said.Command.More {
		return "", control.Conflict("nothing is told: the text has another command, so write two comments")
	}
	_, err := cv.commands.tellSession(&ledger.Tell{
		ID: said.ID, Ref: ledger.Ref(said.Ref), By: said.Author, Text: said.Command.Text,
	})
	cv.commands.sessions.tellOn()
	return "", err
}

// tellSession tells the session that writes for an item a text, and returns the message.
func (cm *commands) tellSession(t *ledger.Tell) (*ledger.Tell, error) {
	item, size := forge.Ref(t.Ref), len(t.Text)
	t.Text = agents.ManyLines(agents.Redact(t.Text, cm.state.secretsOf(cm.state.config())))
	x := cm.state.writerFor(item)
	const instead = "; an ordinary comment is read by the next session"
	switch {
	case t.Text == "":
		return nil, control.Invalid("cannot tell %s: there is no text", item)
	case size > agents.MaxMessage:
		return nil, control.Invalid("cannot tell %s: the text is longer than %d bytes", item, agents.MaxMessage)
	case x == nil:
		return nil, control.Conflict("cannot tell %s: no session writes for it now"+instead, item)
	}
	if _, can := cm.sessions.executor(x.thread.Executor).(teller); !can {
		return nil, control.Conflict("cannot tell %s: the session of %s runs on another machine"+instead, item, x.Agent)
	}
	t.Chain, t.Run, t.Agent, t.Inbox = ledger.Ref(x.Item.Chain), x.RunID, x.Agent, x.role.CLI == ""
	if err := cm.state.append(ledger.Record{At: time.Now(), Tell: t}); err != nil {
		return nil, control.NotNow("cannot tell %s: %s", item, text(err))
	}
	if !cm.state.tells(t.ID) {
		const words = "cannot tell %s: %s has been told %d times, which is the most in a session" + instead
		return nil, control.Conflict(words, item, x.Agent, agents.MostMessages)
	}
	cm.of(x.RunID).Info(fmt.Sprintf("%s told by %s", x.tag, (&agents.Message{By: t.By}).Author()))
	if x.works() { // otherwise its start writes the inbox
		cm.sessions.deliver(x)
	}
	return t, nil
}

// writerFor returns the session that writes for an issue or pull request; nil without one. One on the item itself comes
// before one for it.
func (st *state) writerFor(item forge.Ref) (found *session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, x := range st.sessions {
		fits := x.Item.Ref == item || found == nil && x.Item.Chain == item
		if x.Item.Kind.Writes() && x.State != threads.Stopping && fits {
			found = x
		}
	}
	return found
}

// tells reports whether a message is in the ledger.
func (st *state) tells(id int64) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range st.ledger.Tells {
		if st.ledger.Tells[i].ID == id {
			return true
		}
	}
	return false
}
