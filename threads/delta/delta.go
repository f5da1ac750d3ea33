// Package delta has the differences between the snapshots of two decisions. From a snapshot and the deltas after it,
// each later snapshot can be restored, and gives the same plan.
//
// A delta has the fields of a snapshot, and leaves out the same as package wire: the texts of the forge and secrets.
// It has no configuration: after a change of that, a whole snapshot is written again.
//
//	delta.go   the delta of a snapshot
//	change.go  the delta of a list or a map
//	times.go   the times of facts, which every scan moves
//	sum.go     a checksum of a plan's decisions
package delta

import (
	"reflect"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Delta has the changes from one snapshot to another. Its JSON form is kept for a week, and new versions only add
// fields.
type Delta struct {
	Few      few
	Said     *[]forge.Said                             `json:",omitempty"` // all of them, if a command is new or too old
	Times    []times                                   // when each fact was requested; see times
	Issues   change[forge.Ref, forge.Issue]            `json:",omitzero"`
	Pulls    change[forge.Ref, forge.Pull]             `json:",omitzero"`
	Sessions change[string, threads.Session]           `json:",omitzero"`
	Chains   change[forge.Ref, *threads.ChainHistory]  `json:",omitzero"`
	Items    change[threads.Key, *threads.ItemHistory] `json:",omitzero"`
	Agents   change[string, *threads.AgentHistory]     `json:",omitzero"`
	Threads  change[string, thread]                    `json:",omitzero"`
	Authors  change[string, *threads.AuthorHistory]    `json:",omitzero"`
	Slots    change[threads.SlotKey, threads.Warm]     `json:",omitzero"`
	Paused   change[threads.Pause, time.Time]          `json:",omitzero"`
	Touched  change[forge.Ref, time.Time]              `json:",omitzero"`
}

// few has the small parts of a snapshot. Every delta has all of them.
type few struct {
	Now     time.Time
	Repos   []forge.Repo
	More    bool                           `json:",omitempty"`
	Fleet   []threads.Remote               `json:",omitempty"`
	Typical map[agents.Kind]time.Duration  `json:",omitempty"`
	Caches  map[string]threads.ServerCache `json:",omitempty"`
	Room    *threads.Room                  `json:",omitempty"`
	Rooms   map[string]threads.Room        `json:",omitempty"`
	Outages map[string]threads.Outage      `json:",omitempty"`
}

func fewOf(s *threads.Snapshot) few {
	return few{
		Now: s.Now, Repos: s.Facts.Repos, More: s.Facts.More, Fleet: s.Fleet, Typical: s.Typical, Caches: s.Caches,
		Room: s.Room, Rooms: s.Rooms, Outages: s.Outages,
	}
}

// Between returns the changes from one snapshot to a later one of the same configuration.
func Between(from, to *threads.Snapshot) *Delta {
	d := &Delta{
		Few: fewOf(to), Times: timesOf(&to.Facts),
		Issues:   betweenLists(from.Facts.Issues, to.Facts.Issues, issueRef, forge.Ref.Compare, sameIssue),
		Pulls:    betweenLists(from.Facts.Pulls, to.Facts.Pulls, pullRef, forge.Ref.Compare, samePull),
		Sessions: betweenLists(from.Sessions, to.Sessions, sessionRun, strings.Compare, same),
	}
	if !same(&from.Facts.Said, &to.Facts.Said) {
		d.Said = &to.Facts.Said
	}
	for i := range d.Issues.Put {
		bareIssue(&d.Issues.Put[i].Value)
	}
	for i := range d.Pulls.Put {
		barePull(&d.Pulls.Put[i].Value)
	}
	a, b := &from.History, &to.History
	d.Chains = between(a.Chains, b.Chains, forge.Ref.Compare)
	d.Items = between(a.Items, b.Items, threads.Key.Compare)
	d.Agents = between(a.Agents, b.Agents, strings.Compare)
	d.Threads = betweenThreads(a.Threads, b.Threads)
	d.Authors = between(a.Authors, b.Authors, strings.Compare)
	d.Slots = between(a.Slots, b.Slots, threads.SlotKey.Compare)
	d.Paused = between(a.Paused, b.Paused, ledger.ComparePauses)
	d.Touched = between(a.Touched, b.Touched, forge.Ref.Compare)
	return d
}

// Apply returns the snapshot after the delta. It overwrites parts of the old one.
func (d *Delta) Apply(s threads.Snapshot) threads.Snapshot {
	f := &d.Few
	s.Now, s.Fleet, s.Typical, s.Caches, s.Room = f.Now, f.Fleet, f.Typical, f.Caches, f.Room
	s.Rooms, s.Outages, s.Facts.Repos, s.Facts.More = f.Rooms, f.Outages, f.Repos, f.More
	if d.Said != nil {
		s.Facts.Said = *d.Said
	}
	s.Facts.Issues = d.Issues.applyList(s.Facts.Issues, issueRef, forge.Ref.Compare)
	s.Facts.Pulls = d.Pulls.applyList(s.Facts.Pulls, pullRef, forge.Ref.Compare)
	setTimes(&s.Facts, d.Times)
	s.Sessions = d.Sessions.applyList(s.Sessions, sessionRun, strings.Compare)
	h := &s.History
	h.Threads = applyThreads(h.Threads, &d.Threads)
	h.Chains, h.Items, h.Agents = d.Chains.apply(h.Chains), d.Items.apply(h.Items), d.Agents.apply(h.Agents)
	h.Authors, h.Slots, h.Paused = d.Authors.apply(h.Authors), d.Slots.apply(h.Slots), d.Paused.apply(h.Paused)
	h.Touched = d.Touched.apply(h.Touched)
	return s
}

// Quiet reports whether only things changed since a snapshot that change all the time: the clock, the time of the
// last scan, the machine's room, the usage of sessions.
func (d *Delta) Quiet(from *threads.Snapshot) bool {
	was, is := fewOf(from), d.Few
	for _, f := range []*few{&was, &is} {
		f.Now, f.Room, f.Rooms = time.Time{}, nil, nil
		f.Repos = append([]forge.Repo(nil), f.Repos...)
		for i := range f.Repos {
			f.Repos[i].AsOf, f.Repos[i].Heard = time.Time{}, time.Time{}
		}
	}
	quiet := *d
	quiet.Few, quiet.Times = few{}, nil
	quiet.Sessions.Put, quiet.Touched.Put = nil, nil
	return same(&was, &is) && same(&quiet, &Delta{}) &&
		usedOnly(from.Sessions, d.Sessions.Put) && touchedAgain(from.History.Touched, d.Touched.Put)
}

// usedOnly reports whether only the usage of sessions changed.
func usedOnly(from []threads.Session, put []entry[string, threads.Session]) bool {
	for i := range put {
		now := put[i].Value
		at, found := find(from, now.RunID, sessionRun, strings.Compare)
		if !found {
			return false
		}
		was := from[at]
		was.Used = now.Used
		if !same(&was, &now) {
			return false
		}
	}
	return true
}

// touchedAgain reports whether only items that were touched before are touched. While a write is in progress, its
// item is touched at every moment.
func touchedAgain(from map[forge.Ref]time.Time, put []entry[forge.Ref, time.Time]) bool {
	for i := range put {
		if _, before := from[put[i].Key]; !before {
			return false
		}
	}
	return true
}

func issueRef(i *forge.Issue) forge.Ref    { return i.Ref }
func pullRef(p *forge.Pull) forge.Ref      { return p.Ref }
func sessionRun(s *threads.Session) string { return s.RunID }
func same[T any](a, b *T) bool             { return reflect.DeepEqual(a, b) }

// bareIssue drops the text, as package wire does, and the time of the fact, which is in Times.
func bareIssue(i *forge.Issue) { i.Body, i.AsOf = "", time.Time{} }

func barePull(p *forge.Pull) {
	p.Body, p.AsOf = "", time.Time{}
	reviews := p.Reviews
	p.Reviews = append([]forge.Review(nil), reviews...)
	for i := range p.Reviews {
		p.Reviews[i].Body = ""
	}
}

// sameIssue compares everything but the text and the time of the fact.
func sameIssue(a, b *forge.Issue) bool {
	x, y := *a, *b
	bareIssue(&x)
	bareIssue(&y)
	return same(&x, &y)
}

// samePull is sameIssue for a pull request. The text of a review never changes without the review's time.
func samePull(a, b *forge.Pull) bool {
	x, y := *a, *b
	x.Body, x.AsOf, y.Body, y.AsOf = "", time.Time{}, "", time.Time{}
	return same(&x, &y)
}
