package answers

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// lineLimit bounds a line that is read, in bytes. One with ofLimit subjects has some 100 kB.
const lineLimit = 1 << 20

// read calls visit with each line of a state directory, oldest first. It skips lines that it cannot read.
func read(stateDir string, visit func(*Line)) error {
	files := 0
	for _, name := range []string{oldName, newName} {
		f, err := plainfile.Open(filepath.Join(stateDir, name), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files++
		in := bufio.NewScanner(f)
		in.Buffer(nil, lineLimit)
		for in.Scan() {
			var l Line
			if json.Unmarshal(in.Bytes(), &l) == nil && !l.At.IsZero() {
				visit(&l)
			}
		}
		f.Close()
		if err := in.Err(); err != nil {
			return err
		}
	}
	if files == 0 {
		return fmt.Errorf("no answers are kept in %s", stateDir)
	}
	return nil
}

// Why returns the answer at a time about an issue, a pull request, an agent or a thread. A time in whole seconds means
// the end of that second. runs reports whether a supervisor runs, so that its last answer still holds. After a time in
// which no supervisor ran, the error says from when to when.
func Why(stateDir, said string, at time.Time, runs bool) (threads.Explanation, error) {
	if at.Nanosecond() == 0 {
		at = at.Add(time.Second - 1)
	}
	s := search{at: at, names: named(said), found: make(map[string]*Line)}
	err := read(stateDir, s.line)
	var of string
	if err == nil {
		of, err = s.answered(runs)
	}
	if err != nil {
		return threads.Explanation{}, fmt.Errorf("cannot explain %s at %s: %w", said, show(at), err)
	}
	l := s.found[of]
	ex := threads.Explanation{
		Kind: l.Kind, Steps: []threads.Step{}, Candidates: []threads.CandidateSteps{}, Verdict: l.Why, Code: l.Code,
		Since: l.At,
	}
	if ref, err := forge.ParseRef(of, ""); err == nil {
		ex.Repo, ex.Number = ref.Repo, ref.Number
	} else {
		ex.Name = of
	}
	return ex, nil
}

// named returns a function that recognizes the subjects that a person means: a name, or a reference, whose repository
// may be left out.
func named(said string) func(of string) bool {
	const any = "any/any"
	ref, err := forge.ParseRef(said, any)
	if err != nil {
		return func(of string) bool { return of == said }
	}
	number := fmt.Sprintf("#%d", ref.Number)
	return func(of string) bool {
		repo, found := strings.CutSuffix(of, number)
		return of == said || found && (ref.Repo == any || strings.EqualFold(repo, ref.Repo))
	}
}

// search is a search for the answers of a moment.
type search struct {
	at    time.Time
	names func(of string) bool
	found map[string]*Line // the newest answer up to the moment, by subject

	first, newest *Line // of all lines up to the moment
	next          *Line // the first line after it
	down          *Line // the event since which nothing was written; nil while a supervisor writes
}

func (s *search) line(l *Line) {
	if l.At.After(s.at) {
		if s.next == nil {
			s.next = l
		}
		return
	}
	if s.first == nil {
		s.first = l
	}
	if s.newest == nil || !l.At.Before(s.newest.At) {
		s.newest = l
	}
	s.next = nil // the clock was set back
	switch l.Event {
	case began:
		clear(s.found)
		s.down = nil
		return
	case stopped, failed:
		clear(s.found)
		s.down = l
		return
	}
	s.down = nil
	for _, of := range l.Of {
		if old := s.found[of]; s.names(of) && (old == nil || !l.At.Before(old.At)) {
			s.found[of] = l
		}
	}
}

// answered returns the subject that has an answer.
func (s *search) answered(runs bool) (string, error) {
	killed := s.next != nil && s.next.Event == began || s.next == nil && !runs
	switch {
	case s.first == nil:
		if s.next == nil {
			return "", errors.New("no answer is kept")
		}
		return "", fmt.Errorf("the first kept answer is from %s", show(s.next.At))
	case s.down != nil && s.down.Event == failed:
		return "", s.gap(s.down, "answers could not be written")
	case s.down != nil:
		return "", s.gap(s.down, "no supervisor ran")
	case killed && s.newest.At.Before(s.at.Truncate(time.Second)):
		return "", s.gap(s.newest, "the supervisor was killed")
	}
	all := make([]string, 0, len(s.found))
	for of := range s.found {
		all = append(all, of)
	}
	slices.Sort(all)
	switch len(all) {
	case 0:
		return "", errors.New("it was neither an open issue or pull request that had been read, nor an agent or thread")
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("it may be %s", strings.Join(all, " or "))
}

// gap returns an error about the times between which no answers are known.
func (s *search) gap(since *Line, why string) error {
	if s.next == nil {
		return fmt.Errorf("no answer is kept since %s: %s", show(since.At), why)
	}
	return fmt.Errorf("no answer is kept from %s to %s: %s", show(since.At), show(s.next.At), why)
}

// show formats a time for people.
func show(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Wait is how long an item waited for the same thing.
type Wait struct {
	For  string       // such as "o/r#12"; empty where the code has to say it
	Code threads.Code // of the first such answer
	Took time.Duration
}

// Waits returns what an item waited for up to now, longest first, as far back as answers are kept. Times in which no
// supervisor ran do not count.
func Waits(stateDir string, item forge.Ref, now time.Time) ([]Wait, error) {
	var (
		waits  []Wait
		last   *Line // the newest answer, until the item no longer waits
		newest time.Time
	)
	until := func(t time.Time) {
		if last != nil && t.After(last.At) {
			waits = added(waits, last, t.Sub(last.At))
		}
		last = nil
	}
	err := read(stateDir, func(l *Line) {
		switch {
		case l.Event == began:
			until(newest)
		case l.Event == stopped || l.Event == failed:
			until(l.At)
		case slices.Contains(l.Of, item.String()):
			until(l.At)
			if l.Code != "" && l.Code != threads.Closed {
				last = l
			}
		}
		newest = l.At
	})
	until(now)
	slices.SortStableFunc(waits, func(a, b Wait) int { return cmp.Compare(b.Took, a.Took) })
	return waits, err
}

// added adds the time of an answer to the wait for the same thing.
func added(waits []Wait, l *Line, took time.Duration) []Wait {
	for i := range waits {
		if w := &waits[i]; w.For == l.For && (w.For != "" || w.Code == l.Code) {
			w.Took += took
			return waits
		}
	}
	return append(waits, Wait{For: l.For, Code: l.Code, Took: took})
}
