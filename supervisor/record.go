package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/threads/ledger"
)

// append journals what is about to be done, and makes it true. After an error it must not be done.
func (s *Supervisor) append(r ledger.Record) error {
	err := s.journal.Append(r, func() { s.books.apply(r, nil) })
	s.journalled(err)
	return err
}

// note journals what has happened. It is true whether or not it could be written.
func (s *Supervisor) note(r ledger.Record) { s.noteThen(r, nil) }

// noteThen is note with something that becomes true in the same moment, while the books are locked.
func (s *Supervisor) noteThen(r ledger.Record, then func(*books)) {
	s.journalled(s.journal.Note(r, func() { s.books.apply(r, then) }))
}

// journalled tells people when the journal begins to fail, and when that is over, and compacts one that has grown.
func (s *Supervisor) journalled(err error) {
	if err == nil && s.journal.Oversize() {
		err = s.compact()
	}
	if err == nil && s.problems.journalFails() {
		err = s.journal.HasRoom() // one short line that fits is not the end of a full disk
	}
	switch was := s.problems.setJournal(text(err)); {
	case err != nil && was == "":
		s.log.Error(text(err) + ": nothing is started until that works again")
	case err == nil && was != "":
		s.log.Info("the journal can be written again")
	}
}

// compact replaces the journal by the shortest one with the same meaning.
func (s *Supervisor) compact() error {
	return s.journal.Rewrite(func() []ledger.Record { return s.books.compact(time.Now()) })
}
