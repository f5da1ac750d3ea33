package main

import (
	"net/url"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads/ledger"
)

// offlineHistory reads the history from a state directory.
func offlineHistory(state string, ask url.Values) (*control.HistoryDocument, error) {
	left, err := readOfflineJournal(state)
	if err != nil {
		return nil, err
	}
	of, err := supervisor.PastQuery(ask)
	if err != nil {
		return nil, err
	}
	d := &control.HistoryDocument{Sessions: []control.PastDocument{}}
	for _, p := range left.Past {
		if of.Fits(&p) {
			d.Sessions = append(d.Sessions, supervisor.PastOf(state, p))
		}
	}
	return d, nil
}

// offlineRecord makes a report from a state directory.
func offlineRecord(state string, q control.RecordQuery) (*control.RecordDocument, error) {
	left, err := readOfflineJournal(state)
	if err != nil {
		return nil, err
	}
	return control.RecordOf(left.Past, left.Merges, left.Receipt.N, q), nil
}

func readOfflineJournal(state string) (*ledger.State, error) {
	file, err := journal.ReadOnly(state)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ledger.ReadHistory(file)
}
