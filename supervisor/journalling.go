package supervisor

// journalled logs when writes to the journal start to fail and when they succeed again. It compacts a journal that has
// grown too large.
func (c *core) journalled(err error) {
	if err == nil && c.state.journal.Oversize() {
		err = c.state.rewrite()
	}
	if err == nil && c.problems.journalError() != nil {
		err = c.state.journal.HasRoom() // a short line may fit on a disk that is still full
	}
	switch was := c.problems.setJournal(err); {
	case err != nil && was == nil:
		c.log.Error(text(err) + ": nothing starts until the journal can be written")
	case err == nil && was != nil:
		c.log.Info("the journal can be written again")
	}
}

// mendJournal retries a failed journal, so that a quiet factory also notices when the journal works again.
func (c *core) mendJournal() {
	if c.problems.journalError() != nil {
		c.journalled(c.state.journal.WriteOwed())
	}
}
