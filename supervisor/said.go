package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// This file carries out the commands that people write in comments, one after the other. A command is journalled before
// it is carried out, and its answer before that is written, so that a crash in between repeats neither.

// maxAnswer bounds an answer in bytes: the journal keeps it until it is written.
const maxAnswer = 2000

// interrupted is the answer to a command during which the supervisor ended.
const interrupted = "the supervisor ended while it did this, and does not do it twice: say it again if it is needed"

// keepEars carries out the commands that scans find, until ctx is done. What the forge did not let us do waits for the
// next scan.
func (s *Supervisor) keepEars(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.scanned:
		}
		for _, h := range s.books.unanswered() {
			s.inCommand(func() { s.reply(h) })
		}
		for _, said := range s.books.commands(time.Now()) {
			s.inCommand(func() { s.obey(ctx, said) })
		}
	}
}

// inCommand runs one step as a command of the control API does: it keeps the supervisor from ending meanwhile. While
// that stops or hands over, the step is left for the next one.
func (s *Supervisor) inCommand(step func()) {
	if leave, err := s.enterCommand(); err == nil {
		defer leave()
		s.safely("a command in a comment", step)
	}
}

// obey takes a command, carries it out and answers.
func (s *Supervisor) obey(ctx context.Context, said forge.Said) {
	heard := ledger.Heard{Ref: ledger.Ref(said.Ref), Comment: said.ID, By: said.Author, Verb: verbOf(said.Command)}
	err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Take(ctx, said) })
	switch {
	case errors.Is(err, forge.ErrTaken), errors.Is(err, forge.ErrNotFound), errors.Is(err, forge.ErrForbidden):
		heard.Done = true // another supervisor has it, or it is none any more
		s.books.note(ledger.Record{At: time.Now(), Heard: &heard})
		s.log.Debug(fmt.Sprintf("[%s] a command in a comment is left alone: %s", wordsOf(s.books.config(), said.Ref, ""),
			text(err)))
		return
	case err != nil:
		return // the scan says that the forge is down; the next one finds the command again
	}
	if s.books.append(ledger.Record{At: time.Now(), Heard: &heard}) != nil {
		return // the journal's failure is shown; done now, it would be done again after a restart
	}
	heard.Answer = cutText(s.carryOut(ctx, said), maxAnswer)
	s.log.Info(fmt.Sprintf("[%s] %s by %s: %s", wordsOf(s.books.config(), said.Ref, ""), spoken(heard.Verb), said.Author,
		strings.ReplaceAll(heard.Answer, "\n", "; ")))
	s.books.note(ledger.Record{At: time.Now(), Heard: &heard})
	s.reply(heard)
}

// reply writes the answer to a command below it. One that the forge refuses for good is given up.
func (s *Supervisor) reply(h ledger.Heard) {
	if h.Answer == "" {
		h.Answer = interrupted
	}
	words := comment{
		fmt.Sprintf("command-%d", h.Comment), fence(spoken(h.Verb) + ", by " + h.By + "\n" + h.Answer),
	}
	err := s.comment(forge.Ref(h.Ref), words)
	if err != nil && !isPermanent(err) {
		return
	}
	if err != nil {
		tag := wordsOf(s.books.config(), forge.Ref(h.Ref), "")
		s.log.Warn(fmt.Sprintf("[%s] cannot answer a command: %s", tag, text(err)))
	}
	h.Done = true
	s.books.note(ledger.Record{At: time.Now(), Heard: &h})
}

// spoken is a verb as people write it.
func spoken(verb string) string { return strings.TrimSpace("/disinto " + verb) }

// cutText is the beginning of a text that is too long.
func cutText(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// commands returns the commands in comments that are to be carried out now.
func (b *books) commands(now time.Time) []forge.Said {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg == nil {
		return nil
	}
	return b.ledger.Commands(b.cfg, &b.facts, now)
}

// unanswered returns the commands whose answers are still to be written.
func (b *books) unanswered() (list []ledger.Heard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.ledger.Unanswered() {
		list = append(list, t.Heard)
	}
	return list
}

// verbOf is the verb of a command as the journal has it: one of ours, or none.
func verbOf(c forge.Command) string {
	if _, known := verbs[c.Verb]; known {
		return c.Verb
	}
	return ""
}
