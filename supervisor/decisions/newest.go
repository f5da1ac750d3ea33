package decisions

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Newest returns the snapshot of the newest decision that is kept, without secrets and texts.
func Newest(stateDir string) (*threads.Snapshot, error) { return Last(stateDir, time.Unix(1<<40, 0)) }

// Last returns the snapshot of the last decision up to a time, even if it was no longer in force then.
func Last(stateDir string, until time.Time) (*threads.Snapshot, error) {
	dir := filepath.Join(stateDir, Folder)
	segments, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read decisions: %w", err)
	}
	for _, s := range slices.Backward(segments) { // the last one may be torn before its first decision
		r := &reader{to: until, visit: func(*decided) {}}
		if s.began.After(until) {
			continue
		}
		if r.segment(s.path(dir)); r.now != nil {
			return &r.now.Snapshot, nil
		}
	}
	return nil, fmt.Errorf("no decisions up to that time are kept in %s", dir)
}
