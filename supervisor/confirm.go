package supervisor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// This file decides which commands in comments must be confirmed. An account that may write can edit another's comment,
// and Forgejo's times are whole seconds: an edit within the second in which the comment was written does not show, so
// the comment may contain an agent's command in a person's name. A signed web hook has what the person wrote.

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
	// maxWritten bounds the comments of web hooks that are remembered.
	maxWritten = 1000
)

// proof is what is known about who wrote a command.
type proof int

const (
	unknown  proof = iota // no web hook has said so far
	unproven              // its author has to confirm it
	proven                // it is carried out
)

// written remembers what web hooks said of new comments. After a restart it is empty: commands from before are then
// confirmed.
type written struct {
	mu  sync.Mutex                  // guards sum
	sum map[int64][sha256.Size]byte // of what a comment's author wrote, by comment
}

// sumOf has a fixed size, because a stranger's words may be a megabyte long.
func sumOf(said *forge.CommandComment) [sha256.Size]byte {
	c := said.Command
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t", said.Author, c.Verb, c.Args, c.More))
}

// add remembers a comment of a web hook. The first hook of a comment counts.
func (w *written) add(said forge.CommandComment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sum == nil {
		w.sum = make(map[int64][sha256.Size]byte)
	}
	if _, known := w.sum[said.ID]; !known {
		w.sum[said.ID] = sumOf(&said)
	}
	if len(w.sum) > maxWritten {
		delete(w.sum, slices.Min(slices.Collect(maps.Keys(w.sum))))
	}
}

// proofOf compares a command with the web hook of its comment. If they differ, somebody has edited the comment.
func (w *written) proofOf(said *forge.CommandComment) proof {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch sum, known := w.sum[said.ID]; {
	case !known:
		return unknown
	case sum == sumOf(said):
		return proven
	}
	return unproven
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
		cv.log.Warn(fmt.Sprintf("[%s] cannot ask %s to confirm %s: %s", tag, said.Author, command, text(err)))
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

// unconfirmed returns the commands that wait for a confirmation.
func (st *state) unconfirmed() []forge.CommandComment {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Unconfirmed(&st.facts)
}
