package main

import (
	"net/url"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// leftHistory is the history in a state directory.
func leftHistory(state string, ask url.Values) (*control.HistoryDocument, error) {
	file, err := os.Open(filepath.Join(state, "journal.jsonl"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	past, err := ledger.ReadPast(file)
	if err != nil {
		return nil, err
	}
	of, err := supervisor.PastQuery(ask)
	if err != nil {
		return nil, err
	}
	d := &control.HistoryDocument{Sessions: []control.PastDocument{}}
	for _, p := range past {
		if of.Fits(&p) {
			d.Sessions = append(d.Sessions, supervisor.PastOf(state, p))
		}
	}
	return d, nil
}
