package supervisor

// journalled tells people when the journal begins to fail, and when that is over, and compacts one that has grown.
func (s *Supervisor) journalled(err error) {
	if err == nil && s.books.journal.Oversize() {
		err = s.books.rewrite()
	}
	if err == nil && s.problems.journalFails() {
		err = s.books.journal.HasRoom() // one short line that fits is not the end of a full disk
	}
	switch was := s.problems.setJournal(text(err)); {
	case err != nil && was == "":
		s.log.Error(text(err) + ": nothing is started until that works again")
	case err == nil && was != "":
		s.log.Info("the journal can be written again")
	}
}

// mendJournal finds out whether a journal that failed can be written again, also while nothing happens that has to be
// written.
func (s *Supervisor) mendJournal() {
	if s.problems.journalFails() {
		s.journalled(s.books.journal.Settle())
	}
}
