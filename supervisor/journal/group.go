package journal

import (
	"fmt"
	"sync"
)

// entry is a record on its way to the disk. The mutex of the journal guards err and settled.
type entry struct {
	line    []byte
	past    bool // of a past event: it counts even while the disk refuses it
	apply   func()
	err     error
	settled bool
}

// queue has the entries that wait for the journal, in the order of their coming.
type queue struct {
	mu      sync.Mutex // guards waiting; taken inside the journal's mutex, or alone
	waiting []*entry
}

func (q *queue) add(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, e)
}

// take returns all entries, and empties the queue.
func (q *queue) take() []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}

// commit returns once an entry is on the disk and applied, or refused. Whoever gets the journal next settles all
// entries that wait with one sync: with one each, the ends of 1,000 sessions took more than a second.
func (j *File) commit(e *entry) error {
	j.queue.add(e)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !e.settled {
		j.settle(j.queue.take())
	}
	if e.err != nil {
		return fmt.Errorf("cannot write the journal: %w", e.err)
	}
	return nil
}

// settle writes entries and applies them in the order of their lines. If they cannot be written together, each is
// written alone, because a full disk refuses starts only, and may still take a short line; but not after whole lines
// that could not be removed, which would count twice. mu must be held.
func (j *File) settle(list []*entry) {
	err := j.writeAll(list)
	if err != nil && len(list) > 1 && !j.torn {
		for i := range list {
			j.settle(list[i : i+1])
		}
		return
	}
	for _, e := range list {
		e.err, e.settled = err, true
		if err != nil && e.past {
			j.owed = append(j.owed, e.line...)
		}
	}
	applyAll(list)
}

// writeAll writes the lines of entries with one sync. mu must be held.
func (j *File) writeAll(list []*entry) error {
	var lines []byte
	past := true
	for _, e := range list {
		lines = append(lines, e.line...)
		past = past && e.past
	}
	if !past {
		if err := j.reserve(); err != nil {
			return err
		}
	}
	return j.write(lines)
}

// applyAll applies the entries that count. After a panic in one it applies the rest nevertheless: they are on the disk.
func applyAll(list []*entry) {
	if len(list) == 0 {
		return
	}
	defer applyAll(list[1:])
	if e := list[0]; e.err == nil || e.past {
		e.apply()
	}
}
