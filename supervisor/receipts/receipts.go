// Package receipts keeps the receipts of sessions in a state directory: one file for each, and one that names the
// newest pruned receipt. Only the supervisor's account can read the files.
package receipts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads/audit"
)

// Folder is their folder in the state directory.
const Folder = "receipts"

// Most bounds the number of receipts, and so their size: 10,000 of 3 kB.
const Most = 10_000

// Store writes a state directory's receipts, one after the other. Its methods may be called from several goroutines.
type Store struct {
	dir, instance string

	mu     sync.Mutex // guards head; held while a receipt is written, because each names the one before
	head   audit.Head
	pruned audit.Pruned // only Prune uses it after Open
}

// Open opens the receipts of a state directory. The journal knows the newest one, and those that were removed. Open
// removes a last one that a crash left unfinished, because nothing relies on it. It leaves every other damage for
// Verify: the next receipt follows the newest one in the journal or the folder.
func Open(stateDir, instance string, j audit.Journal) (*Store, error) {
	s := &Store{dir: filepath.Join(stateDir, Folder), instance: instance, head: j.Newest, pruned: j.Pruned}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the receipts: %w", err)
	}
	names, err := list(s.dir)
	if err != nil {
		return nil, err
	}
	if s.head.N == 0 { // the journal is lost
		s.head, _ = readPruned(s.dir)
	}
	for _, name := range slices.Backward(names) {
		n, _, _ := audit.ReadName(name)
		if n <= s.head.N {
			break
		}
		path := filepath.Join(s.dir, name)
		text, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the newest receipt: %w", err)
		}
		if _, err := audit.Read(text); err == nil || name != names[len(names)-1] {
			s.head = audit.Head{N: n, Hash: audit.Hash(text)}
			break
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("cannot remove an unfinished receipt: %w", err)
		}
	}
	return s, nil
}

func (s *Store) prev() string {
	if s.head.N == 0 {
		return audit.Genesis(s.instance)
	}
	return s.head.Hash
}

// Add numbers a receipt, links it to the one before, and writes it. It is on the disk when Add returns.
func (s *Store) Add(r *audit.Receipt) (audit.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Version, r.N, r.Prev = audit.Version, s.head.N+1, s.prev()
	text, err := r.Text()
	if err != nil {
		return audit.Head{}, fmt.Errorf("cannot write the receipt of %s: %w", r.Run, err)
	}
	if err := plainfile.ReplaceSynced(filepath.Join(s.dir, audit.Name(r.N, r.Run)), text); err != nil {
		return audit.Head{}, fmt.Errorf("cannot write the receipt of %s: %w", r.Run, err)
	}
	s.head = audit.Head{N: r.N, Hash: audit.Hash(text)}
	return s.head, nil
}

// Of returns a run's receipt that was written before a crash, if it is newer than the journal's newest one.
func (s *Store) Of(run string, journalled int64) (h audit.Head, ok bool) {
	names, _ := list(s.dir)
	for _, name := range slices.Backward(names) {
		n, of, _ := audit.ReadName(name)
		if n <= journalled {
			break
		}
		if text, err := read(filepath.Join(s.dir, name)); of == run && err == nil {
			return audit.Head{N: n, Hash: audit.Hash(text)}, true
		}
	}
	return h, false
}

// Beyond counts the receipts of sessions that a journal does not know and that are newer than its newest one, and
// returns when the last of those ended. A crash between a receipt and its record leaves only those of known sessions.
func (s *Store) Beyond(journalled int64, known func(run string) bool) (count int, last time.Time) {
	names, _ := list(s.dir)
	for _, name := range slices.Backward(names) {
		n, run, _ := audit.ReadName(name)
		if n <= journalled {
			break
		}
		if known(run) {
			continue
		}
		count++
		if text, err := read(filepath.Join(s.dir, name)); err == nil && last.IsZero() {
			if r, err := audit.Read(text); err == nil {
				last = r.EndedAt
			}
		}
	}
	return count, last
}

// Prune removes the oldest receipts: those of sessions that ended before a time, and those beyond most. Before that it
// has note record the newest one that it removes in the journal; if that fails, it removes none. Prune must not run
// twice at once.
func (s *Store) Prune(before time.Time, most int, note func(audit.Pruned) error) (removed int, err error) {
	names, err := list(s.dir)
	if err != nil {
		return 0, err
	}
	last, due := s.pruned, 0
	for i, name := range names {
		text, err := read(filepath.Join(s.dir, name))
		if err != nil {
			break // left for a person
		}
		r, err := audit.Read(text)
		if err != nil || i >= len(names)-most && !r.EndedAt.Before(before) {
			break
		}
		n, _, _ := audit.ReadName(name)
		if due = i + 1; n <= last.N { // a crash left it
			continue
		}
		switch {
		case n > last.N+1:
			last.Lost += n - last.N - 1
		case !r.Follows(last.Head, s.instance):
			last.Lost++
		}
		last.Head = audit.Head{N: n, Hash: audit.Hash(text)}
	}
	if due == 0 {
		return 0, nil
	}
	if last != s.pruned {
		if err := note(last); err != nil {
			return 0, fmt.Errorf("cannot note which receipts are removed: %w", err)
		}
		s.pruned = last
	}
	text, err := json.Marshal(last.Head)
	if err == nil {
		err = plainfile.ReplaceSynced(filepath.Join(s.dir, audit.PrunedFile), append(text, '\n'))
	}
	if err != nil {
		return 0, fmt.Errorf("cannot note which receipts are removed: %w", err)
	}
	for _, name := range names[:due] {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, name)))
	}
	return due, err
}

// Verify checks the receipts of a state directory. It asks journal first. A supervisor may add and remove receipts
// meanwhile, so Verify reports only a break that it finds twice.
func Verify(stateDir, instance string, journal func() (audit.Journal, error)) (r audit.Report, err error) {
	const tries = 5
	var before *audit.Break
	for range tries {
		var j audit.Journal
		if j, err = journal(); err != nil {
			return r, err
		}
		if r, err = verify(filepath.Join(stateDir, Folder), instance, j); err != nil || r.OK {
			return r, err
		}
		if before != nil && *before == *r.Break {
			return r, nil
		}
		before = r.Break
	}
	return r, nil
}

// verify is one try.
func verify(dir, instance string, j audit.Journal) (r audit.Report, err error) {
	noted, err := readPruned(dir)
	if err != nil {
		return r, err
	}
	names, err := list(dir)
	if err != nil {
		return r, err
	}
	c := audit.NewChain(instance, noted, j)
	for _, name := range names {
		text, err := read(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return r, fmt.Errorf("cannot read a receipt: %w", err)
		}
		c.Next(name, text)
	}
	return c.End(), nil
}

// list returns the names of the receipts in a folder, sorted; none if the folder does not exist.
func list(dir string) (names []string, err error) {
	d, err := plainfile.OpenFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the receipts: %w", err)
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list the receipts: %w", err)
	}
	for _, name := range all {
		if _, _, ok := audit.ReadName(name); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func readPruned(dir string) (h audit.Head, err error) {
	text, err := read(filepath.Join(dir, audit.PrunedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err == nil && (h.N < 1 || len(h.Hash) != 64 || strings.Trim(h.Hash, "0123456789abcdef") != "") {
		err = errors.New("it names no receipt")
	}
	if err != nil {
		return h, fmt.Errorf("cannot read which receipts were removed, in %s: %w", filepath.Join(dir, audit.PrunedFile), err)
	}
	return h, nil
}

// read reads a file up to one byte beyond the bound.
func read(path string) ([]byte, error) {
	f, err := plainfile.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, audit.MaxReceipt+1))
}
