package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads/ledger"
)

// problems are what a person has to mend, for the status document.
type problems struct {
	journal string            // why the newest record could not be written
	corrupt int               // lines of the journal that were set aside at the start
	ports   map[string]string // why an address cannot be listened on, by key of [factory]
	panics  int
	panic   string // the newest
}

// append journals what is about to be done, and makes it true. After an error it must not be done.
func (s *Supervisor) append(r ledger.Record) error {
	err := s.journal.Append(r, func() { s.apply(r, nil) })
	s.journalled(err)
	return err
}

// note journals what has happened. It is true whether or not it could be written.
func (s *Supervisor) note(r ledger.Record) { s.noteThen(r, nil) }

// noteThen is note with something that becomes true in the same moment, under the lock.
func (s *Supervisor) noteThen(r ledger.Record, then func()) {
	s.journalled(s.journal.Note(r, func() { s.apply(r, then) }))
}

func (s *Supervisor) apply(r ledger.Record, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.Apply(r)
	if then != nil {
		then()
	}
}

// journalled tells people when the journal begins to fail, and when that is over, and compacts one that has grown.
func (s *Supervisor) journalled(err error) {
	if err == nil && s.journal.Oversize() {
		err = s.compact()
	}
	s.mu.Lock()
	was := s.problems.journal
	s.mu.Unlock()
	if err == nil && was != "" {
		err = s.journal.HasRoom() // one short line that fits is not the end of a full disk
	}
	s.mu.Lock()
	s.problems.journal = text(err)
	s.mu.Unlock()
	switch {
	case err != nil && was == "":
		s.log.Error(text(err) + ": nothing is started until that works again")
	case err == nil && was != "":
		s.log.Info("the journal can be written again")
	}
}

// compact replaces the journal by the shortest one with the same meaning.
func (s *Supervisor) compact() error {
	return s.journal.Rewrite(func() []ledger.Record {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.history.Compact(time.Now())
	})
}

// lines are the problems in words.
func (p *problems) lines() []string {
	list := []string{}
	if p.journal != "" {
		list = append(list, p.journal+": nothing is started until that works again")
	}
	for _, key := range slices.Sorted(maps.Keys(p.ports)) {
		list = append(list, p.ports[key])
	}
	if p.corrupt > 0 {
		list = append(list, fmt.Sprintf("%d lines of the journal were corrupt: see journal.corrupt", p.corrupt))
	}
	if p.panics > 0 {
		list = append(list, fmt.Sprintf("internal error: %d passes or calls panicked, last: %s", p.panics, p.panic))
	}
	return list
}

// panicked counts a panic. The stack is logged the first time it says what it says.
func (s *Supervisor) panicked(what string, v any, stack []byte) {
	words := fmt.Sprint(v)
	s.mu.Lock()
	first := s.problems.panic != words
	s.problems.panics++
	s.problems.panic = words
	s.mu.Unlock()
	if first {
		s.log.Error(fmt.Sprintf("internal error: %s panicked: %s\n%s", what, words, stack))
	}
	s.touchStatus()
}
