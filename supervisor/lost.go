package supervisor

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads/ledger"
)

// newerJournal refuses a journal with a kind of record that only a newer version knows.
func newerJournal(stateDir, kind string) error {
	return fmt.Errorf("cannot start: %s in %s is of a newer version of disinto, which wrote records of %q: upgrade, or "+
		"start with --ignore-newer, which sets those lines aside in journal.corrupt and forgets them",
		journal.FileName, stateDir, kind)
}

// lostOf says what the journal that was read lacks; "" if nothing is known to be missing. Each session leaves a receipt
// beside it: receipts that are newer than the journal's newest one belong to sessions that the journal has lost, unless
// it has their start or their end. gone reports that there was no journal, fresh that it had no record.
func (s *Supervisor) lostOf(past *ledger.State, gone, fresh bool) string {
	known := make(map[string]bool)
	for run := range past.Open {
		known[run] = true
	}
	for i := range past.Past {
		known[past.Past[i].Run] = true
	}
	for i := range past.Recent {
		known[past.Recent[i].RunID] = true
	}
	n, last := 0, time.Time{}
	if s.receipting.store != nil {
		n, last = s.receipting.store.Beyond(past.Receipt.N, func(run string) bool { return known[run] })
	}
	_, used := control.ReadStatusFile(s.StateDir)
	switch forgets := "attempts, pauses and what was spent are forgotten: stop disinto and restore "; {
	case fresh && n > 0:
		return fmt.Sprintf("the journal in %s is lost: %s ran here, the last until %s, and their %sit from a backup, "+
			"or go on", s.StateDir, control.Count(n, "session"), last.UTC().Format(time.RFC3339), forgets)
	case gone && !used.IsZero():
		return fmt.Sprintf("the journal in %s is lost: a supervisor ran here until %s, and its %sit from a backup, or go on",
			s.StateDir, used.UTC().Format(time.RFC3339), forgets)
	case n > 0:
		return fmt.Sprintf("the journal in %s was cut off, or comes from an older copy: it does not know the last %s, until "+
			"%s, whose %sa newer copy, or go on",
			s.StateDir, control.Count(n, "session"), last.UTC().Format(time.RFC3339), forgets)
	}
	return ""
}
