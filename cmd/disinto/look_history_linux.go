package main

import (
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads/ledger"
)

// offlineHistory reads the history from a state directory.
func offlineHistory(state string, q control.HistoryQuery) (*control.HistoryDocument, error) {
	left, err := readOfflineJournal(state)
	if err != nil {
		return nil, err
	}
	return supervisor.HistoryOf(state, left.Books(), q), nil
}

// offlineRecord makes a report from a state directory.
func offlineRecord(state string, q control.RecordQuery) (*control.RecordDocument, error) {
	left, err := readOfflineJournal(state)
	if err != nil {
		return nil, err
	}
	return control.RecordOf(left.Books(), q), nil
}

func readOfflineJournal(state string) (*ledger.State, error) {
	file, err := journal.ReadOnly(state)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ledger.ReadHistory(file)
}
