package decisions

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/wire"
)

// decided is a past decision.
type decided struct {
	threads.Snapshot
	Program string      // version of disinto that made the decision
	Sum     string      // of the plan; see delta.Sum
	Starts  []forge.Ref // items that the plan started
}

// between calls visit with the decisions made from one time to another. If there was none, it calls visit with the
// decision in force. It fails if that decision is unknown. The decision belongs to visit until visit returns.
func between(stateDir string, from, to time.Time, runs bool, visit func(*decided)) error {
	dir := filepath.Join(stateDir, Folder)
	segments, err := list(dir)
	if err != nil {
		return err
	}
	if len(segments) == 0 {
		return fmt.Errorf("no decisions are kept in %s", dir)
	}
	at := len(segments) - 1 // after a clock was set back, the later segment counts
	for at >= 0 && segments[at].began.After(to) {
		at--
	}
	if at < 0 {
		return fmt.Errorf("the first kept decision is from %s", show(segments[0].began))
	}
	first := at
	for first > 0 && segments[first].began.After(from) {
		first--
	}
	r := &reader{from: from, to: to, visit: visit}
	for ; first <= at; first++ {
		r.segment(segments[first].path(dir))
	}
	switch {
	case r.visited:
		return nil
	case r.newer != 0:
		return fmt.Errorf("that decision is stored in format %d, and this disinto reads %d", r.newer, format)
	case r.stands(segments[at+1:], dir, runs):
		visit(r.now)
		return nil
	}
	return r.gap(segments[at+1:])
}

// show formats a time for people.
func show(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// reader reads decisions from segments in turn.
type reader struct {
	from, to time.Time
	visit    func(*decided)

	now     *decided // the newest decision up to the time; nil before the first
	visited bool
	end     *line // the last segment's ending; nil if it has none
	next    *line // the first line after that time
	newer   int   // format of a segment that is not read
}

// segment reads the decisions up to the time. It stops at a torn or damaged line, because the following lines contain
// only changes.
func (r *reader) segment(path string) {
	r.end, r.next = nil, nil
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		return
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineLimit+16)
	now := &decided{}
	for lines.Scan() {
		l, ok := decode(lines.Bytes())
		switch {
		case !ok:
			return
		case l.Heading != nil && l.Heading.Format > format:
			r.newer = l.Heading.Format
			return
		case l.Heading != nil:
			now.Program = l.Heading.Program
			continue
		case l.At.After(r.to), l.End != "" && l.At.After(r.from):
			r.next = &l
			return
		case l.End != "":
			r.end = &l
			return
		}
		if !r.decision(now, &l) {
			return
		}
	}
}

// decision applies a line with a decision, and reports whether it is readable.
func (r *reader) decision(now *decided, l *line) bool {
	switch {
	case l.Base != nil:
		s, err := wire.DecodeSnapshot(l.Base)
		if err != nil || s.Config == nil {
			return false
		}
		now.Snapshot = *s
	case l.Delta != nil && now.Config != nil:
		now.Snapshot = l.Delta.Apply(now.Snapshot)
	default:
		return false
	}
	now.Sum, now.Starts = l.Sum, l.Starts
	r.now = now
	if !l.At.Before(r.from) {
		r.visit(now)
		r.visited = true
	}
	return true
}

// stands reports whether the newest decision up to the time was still in force at it.
func (r *reader) stands(later []segment, dir string, runs bool) bool {
	switch {
	case r.now == nil:
		return false
	case r.next != nil:
		return r.next.Lost == nil || r.next.Lost.From.After(r.from)
	case r.end != nil && !r.end.End.goesOn():
		return false
	case len(later) == 0:
		return runs
	}
	return r.end != nil || begunAfter(later[0].path(dir)).goesOn()
}

// begunAfter returns the ending of the segment before, according to a segment's heading.
func begunAfter(path string) ending {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(in)
	lines.Scan()
	if l, ok := decode(lines.Bytes()); ok && l.Heading != nil {
		return l.Heading.After
	}
	return ""
}

// gap returns an error with the times between which the decisions are unknown.
func (r *reader) gap(later []segment) error {
	switch {
	case r.now == nil:
		return fmt.Errorf("the decisions of that time cannot be read")
	case r.next != nil:
		return fmt.Errorf("%d decisions between %s and %s were made faster than they could be written",
			r.next.Lost.N, show(r.next.Lost.From), show(r.next.At))
	}
	since, why := r.now.Now, "the supervisor was killed, or could not write them"
	if r.end != nil {
		since, why = r.end.At, "the supervisor did not run"
	}
	if len(later) == 0 {
		return fmt.Errorf("no decision is kept after %s: %s", show(since), why)
	}
	return fmt.Errorf("no decision is kept between %s and %s: %s", show(since), show(later[0].began), why)
}
