package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// This file carries out the commands in people's comments, one after the other. A command is journalled before it is
// carried out, and its answer before that is written, so that a crash in between repeats neither.

// maxAnswer bounds an answer in bytes: the journal keeps the answer until it is written.
const maxAnswer = 2000

const (
	// hookWait is how long a command that lifts a limit waits for its web hook before its author is asked. Forgejo sends
	// hooks one after the other, and gives each receiver five seconds.
	hookWait = 10 * time.Second
	// editWait is how long an author is not asked at all: the question has to be of a later second than any edit that does
	// not show.
	editWait = 2 * time.Second
	// confirmEvery is the shortest time between two readings of the reactions to unconfirmed commands, and confirmBatch
	// how many commands one reading looks at; it looks at the newest.
	confirmEvery, confirmBatch = 10 * time.Second, 8
)

// interrupted is the answer to a command that the supervisor's end interrupted.
const interrupted = "the supervisor ended during this command, and does not repeat it: write it again if still needed"

// conversation carries out the commands in people's comments, and answers them.
type conversation struct {
	*core
	scanner  *scanner
	clerk    *clerk
	commands *commands
	pausing  *pausing
	history  *history
	written  written
	// Of the goroutine that carries out the commands.
	waits  map[int64]time.Time // since when a command is neither carried out nor asked about, by comment
	looked time.Time           // when the reactions to unconfirmed commands were last read
}

// carryOutComments carries out the commands that scans find, until ctx is done. Commands and answers that the forge
// refused for now wait for the next scan.
func (cv *conversation) carryOutComments(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-cv.scanner.scanned:
		case <-cv.again(time.Now()):
		case <-cv.commands.sessions.heard:
		}
		cv.inCommand(ctx, cv.commands.sessions.recordHeard)
		for _, h := range cv.state.unanswered() {
			cv.inCommand(ctx, func() { cv.reply(h) })
		}
		for _, said := range cv.unconfirmed(time.Now()) {
			cv.inCommand(ctx, func() { cv.confirm(ctx, said) })
		}
		for _, said := range cv.state.commands(time.Now()) {
			cv.inCommand(ctx, func() { cv.handle(ctx, said) })
		}
	}
}

// inCommand runs one step as a command of the control API, so the supervisor does not end meanwhile. While the
// supervisor stops or hands over, the step is left to the next supervisor.
func (cv *conversation) inCommand(ctx context.Context, step func()) {
	if leave, err := cv.enterCommand(ctx); err == nil {
		defer leave()
		cv.safely("a command in a comment", step)
	}
}

// handle claims a command on the forge, and carries it out, or asks its author to confirm it.
func (cv *conversation) handle(ctx context.Context, said forge.CommandComment) {
	switch cv.proofOf(said, time.Now()) {
	case proven:
		if cv.claim(said) {
			cv.carryOut(ctx, said)
		}
	case unproven:
		if cv.claim(said) {
			cv.ask(said)
		}
	}
}

// heardOf begins the record of a command.
func heardOf(said forge.CommandComment) ledger.Heard {
	return ledger.Heard{Ref: ledger.Ref(said.Ref), Comment: said.ID, By: said.Author, Verb: verbOf(said.Command)}
}

// claim takes a command for this supervisor; ok is false if the command is not ours to carry out, or not now.
func (cv *conversation) claim(said forge.CommandComment) (ok bool) {
	heard := heardOf(said)
	err := cv.call(cv.base, callTimeout, func(ctx context.Context, f Forge) error { return f.ClaimCommand(ctx, said) })
	switch {
	case errors.Is(err, forge.ErrTaken), errors.Is(err, forge.ErrNotFound), errors.Is(err, forge.ErrForbidden):
		heard.Done = true // another supervisor has it, or the comment is gone
		cv.state.record(ledger.Record{At: time.Now(), Heard: &heard})
		cv.log.Debug(fmt.Sprintf("[%s] ignoring a command in a comment: %s", wordsOf(cv.state.config(), said.Ref, ""),
			text(err)))
		return false
	}
	return err == nil // else the next scan reports that the forge is down, and finds the command again
}

// carryOut carries out a command that we have claimed, and answers.
func (cv *conversation) carryOut(ctx context.Context, said forge.CommandComment) {
	heard := heardOf(said)
	if cv.state.append(ledger.Record{At: time.Now(), Heard: &heard}) != nil {
		return // unjournalled, the command would be carried out again after a restart
	}
	if heard.Answer = cutText(cv.execute(ctx, said), maxAnswer); heard.Answer == "" {
		return // see ledger.Tell
	}
	cv.log.Info(fmt.Sprintf("[%s] %s by %s: %s", wordsOf(cv.state.config(), said.Ref, ""), spoken(heard.Verb), said.Author,
		strings.ReplaceAll(heard.Answer, "\n", "; ")))
	cv.state.record(ledger.Record{At: time.Now(), Heard: &heard})
	cv.reply(heard)
}

// proofOf returns whether a command is carried out now. It is unknown while the command's web hook may still come, and
// in the second in which an edit would not show.
func (cv *conversation) proofOf(said forge.CommandComment, now time.Time) proof {
	p, most := cv.written.proofOf(&said), editWait
	switch {
	case p == proven, p == unknown && !verbs[said.Command.Verb].lifts:
		return proven
	case p == unknown && cv.state.config().Forge.WebhookSecret != "":
		most = hookWait
	}
	if _, waits := cv.waits[said.ID]; !waits {
		cv.waits[said.ID] = now
	}
	if now.Sub(cv.waits[said.ID]) < most {
		return unknown
	}
	return unproven
}

// again returns a channel that is ready when commands that wait are looked at again, also without a scan: no web hook
// tells of a reaction. It is nil if none waits.
func (cv *conversation) again(now time.Time) <-chan time.Time {
	maps.DeleteFunc(cv.waits, func(_ int64, since time.Time) bool { return now.Sub(since) > 2*hookWait })
	switch {
	case len(cv.waits) > 0:
		return time.After(editWait)
	case len(cv.state.unconfirmed()) > 0:
		return time.After(confirmEvery)
	}
	return nil
}

// ask asks a command's author to confirm it. The comment comes before the record: it is written once in any case.
func (cv *conversation) ask(said forge.CommandComment) {
	command := spoken(verbOf(said.Command))
	err := cv.comment(said.Ref, comment{said.ConfirmKey(), fmt.Sprintf(
		"%s`%s` waits for your confirmation, because another account may have edited your comment within the second in "+
			"which you wrote it.\n\nIf the command is yours, give **your comment with the command** a thumbs-up, and it is "+
			"carried out. (One from before this question does not count: take it off, and give it again.)",
		greeting(said.Author), command)})
	if err != nil && !isPermanent(err) {
		return // the next scan finds the command again
	}
	delete(cv.waits, said.ID)
	heard := heardOf(said)
	heard.Asked, heard.Done = err == nil, err != nil
	tag := wordsOf(cv.state.config(), said.Ref, "")
	if err != nil {
		cv.log.Info(fmt.Sprintf("[%s] cannot ask %s to confirm %s: %s", tag, said.Author, command, text(err)))
	} else {
		cv.log.Info(fmt.Sprintf("[%s] %s by %s waits for a thumbs-up: no web hook shows who wrote it", tag, command,
			said.Author))
	}
	cv.state.record(ledger.Record{At: time.Now(), Heard: &heard})
}

// unconfirmed returns the commands whose reactions are to be read now.
func (cv *conversation) unconfirmed(now time.Time) []forge.CommandComment {
	all := cv.state.unconfirmed()
	if len(all) == 0 || now.Sub(cv.looked) < confirmEvery {
		return nil
	}
	cv.looked = now
	return all[max(0, len(all)-confirmBatch):]
}

// confirm carries out a command that its author has confirmed, or that a late web hook has proven.
func (cv *conversation) confirm(ctx context.Context, said forge.CommandComment) {
	confirmed := cv.written.proofOf(&said) == proven
	if !confirmed {
		var err error
		confirmed, err = fetch(cv.core, func(ctx context.Context, f Forge) (bool, error) { return f.Confirmed(ctx, said) })
		confirmed = confirmed && err == nil
	}
	if confirmed && cv.claim(said) {
		cv.carryOut(ctx, said)
	}
}

// reply writes the answer to a command below it. It drops an answer that the forge refuses permanently.
func (cv *conversation) reply(h ledger.Heard) {
	if h.Answer == "" {
		h.Answer = interrupted
	}
	words := comment{
		fmt.Sprintf("command-%d", h.Comment), fence(spoken(h.Verb) + ", by " + h.By + "\n" + h.Answer),
	}
	write := cv.comment
	if h.Verb == forge.Tell { // its answer changes
		write = cv.keepComment
	}
	err := write(forge.Ref(h.Ref), words)
	if err != nil && !isPermanent(err) {
		return
	}
	if err != nil {
		tag := wordsOf(cv.state.config(), forge.Ref(h.Ref), "")
		cv.log.Info(fmt.Sprintf("[%s] cannot answer a command: %s", tag, text(err)))
	}
	h.Done = true
	cv.state.record(ledger.Record{At: time.Now(), Heard: &h})
}

// spoken returns a verb as people write it.
func spoken(verb string) string { return strings.TrimSpace("/disinto " + verb) }

// cutText cuts a text that is too long.
func cutText(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// commands returns the commands in comments that must be carried out now.
func (st *state) commands(now time.Time) []forge.CommandComment {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil {
		return nil
	}
	return st.ledger.Commands(st.cfg, &st.facts, now)
}

// unanswered returns the commands whose answers are not written yet.
func (st *state) unanswered() (list []ledger.Heard) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, t := range st.ledger.Unanswered() {
		list = append(list, t.Heard)
	}
	return list
}

// verbOf returns a command's verb for the journal, or "" for an unknown verb.
func verbOf(c forge.Command) string {
	if _, known := verbs[c.Verb]; known {
		return c.Verb
	}
	return ""
}

// unconfirmed returns the commands that wait for a confirmation.
func (st *state) unconfirmed() []forge.CommandComment {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Unconfirmed(&st.facts)
}
