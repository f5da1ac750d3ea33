package supervisor

// journalled logs when writes to the journal start to fail and when they succeed again. It compacts a journal that has
// grown too large.
func (s *Supervisor) journalled(err error) {
	if err == nil && s.books.journal.Oversize() {
		err = s.books.rewrite()
	}
	if err == nil && s.problems.journalFails() {
		err = s.books.journal.HasRoom() // a short line may fit on a disk that is still full
	}
	switch was := s.problems.setJournal(text(err)); {
	case err != nil && was == "":
		s.log.Error(text(err) + ": nothing starts until the journal can be written")
	case err == nil && was != "":
		s.log.Info("the journal can be written again")
	}
}

// mendJournal retries a failed journal, so that a quiet factory also notices when the journal works again.
func (s *Supervisor) mendJournal() {
	if s.problems.journalFails() {
		s.journalled(s.books.journal.Settle())
	}
}
