package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// MemberState is how far one member of a convoy is. Each member is in exactly one, so that their numbers add up: a convoy
// of which most failed must not look like one that is nearly done.
type MemberState string

// The states of a member.
const (
	MemberDone      MemberState = "done" // closed; where a pull request was for it, merged
	MemberFailed    MemberState = "failed"
	MemberCancelled MemberState = "cancelled"
	MemberRunning   MemberState = "running" // a session is on it, or its pull request is on its way
	MemberReady     MemberState = "ready"   // nothing keeps it but an agent and a slot
	MemberBlocked   MemberState = "blocked"
)

// ConvoyState is how far a convoy is as a whole.
type ConvoyState string

// The states of a convoy. One that is started and not closed may be waiting for a person: its members say so.
const (
	ConvoyStaged    ConvoyState = "staged"
	ConvoyStarted   ConvoyState = "started"
	ConvoyDone      ConvoyState = "done"
	ConvoyCancelled ConvoyState = "cancelled"
)

// Convoy is a tracking issue and how far its members are. Its JSON form is part of the control API.
type Convoy struct {
	Repo   string              `json:"repo"`
	Number int64               `json:"number"`
	Title  string              `json:"title"`
	State  ConvoyState         `json:"state"`
	Known  bool                `json:"known"` // its members have been read
	Counts map[MemberState]int `json:"counts"`
	// Members are sorted by wave, then by reference.
	Members []Member `json:"members"`
}

// Member is one issue that a convoy depends on.
type Member struct {
	Repo   string      `json:"repo"`
	Number int64       `json:"number"`
	Title  string      `json:"title"`
	State  MemberState `json:"state"`
	// Wave counts from 1 those that can be worked on next; the second wave waits for the first. 0 is over.
	Wave  int    `json:"wave"`
	Agent string `json:"agent"` // who works on it
	Code  Code   `json:"code"`  // of why it waits; empty where it does not
	Why   string `json:"why"`
}

// Ref names the member.
func (m *Member) Ref() forge.Ref { return forge.Ref{Repo: m.Repo, Number: m.Number} }

// Convoys are all open convoys that have been read, sorted by reference.
func Convoys(s Snapshot) []Convoy {
	if s.Config == nil {
		return nil
	}
	_, d := decide(&s)
	var list []Convoy
	for i := range s.Facts.Issues {
		if is := &s.Facts.Issues[i]; !is.Closed && is.Has(forge.LabelConvoy) {
			list = append(list, d.convoy(is))
		}
	}
	return list
}

// ConvoyOf says how far one convoy is, as it was read just now. What its members wait for is what Decide says of them.
func ConvoyOf(s Snapshot, is *forge.Issue) Convoy {
	_, d := decide(&s)
	return d.convoy(is)
}

func (d *decision) convoy(is *forge.Issue) Convoy {
	c := Convoy{
		Repo: is.Repo, Number: is.Number, Title: is.Title, State: convoyState(is), Known: is.BlockersKnown,
		Counts: make(map[MemberState]int), Members: []Member{},
	}
	waves := d.waves(is)
	for _, b := range is.Blockers {
		m := d.member(b)
		if m.State != MemberDone && m.State != MemberCancelled {
			m.Wave = waves[b.Ref]
		}
		c.Members = append(c.Members, m)
		c.Counts[m.State]++
	}
	slices.SortStableFunc(c.Members, func(a, b Member) int { return a.Wave - b.Wave })
	return c
}

func convoyState(is *forge.Issue) ConvoyState {
	switch {
	case is.Has(forge.LabelCancelled):
		return ConvoyCancelled
	case is.Closed:
		return ConvoyDone
	case is.Has(forge.LabelStaged):
		return ConvoyStaged
	}
	return ConvoyStarted
}

// waves are the members that are not over, by how many others they wait for in a row. Those on a circle, or behind one,
// come last.
func (d *decision) waves(is *forge.Issue) map[forge.Ref]int {
	waves := make(map[forge.Ref]int, len(is.Blockers))
	left := slices.Clone(is.Blockers)
	for wave := 1; len(left) > 0; wave++ {
		var now []forge.Ref
		for _, b := range left {
			if !d.waitsForOneOf(b.Ref, left) {
				now = append(now, b.Ref)
			}
		}
		for _, b := range left {
			if len(now) == 0 || slices.Contains(now, b.Ref) {
				waves[b.Ref] = wave
			}
		}
		left = slices.DeleteFunc(left, func(b forge.Blocker) bool { return waves[b.Ref] > 0 })
	}
	return waves
}

// waitsForOneOf reports whether an issue has an open blocker among some others.
func (d *decision) waitsForOneOf(ref forge.Ref, others []forge.Blocker) bool {
	is := d.Facts.Issue(ref)
	return is != nil && !is.Closed && slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool {
		return b.State != forge.BlockerClosed && slices.ContainsFunc(others, func(o forge.Blocker) bool { return o.Ref == b.Ref })
	})
}

// member is how far one of the issues is that a convoy depends on.
func (d *decision) member(b forge.Blocker) Member {
	m := Member{Repo: b.Ref.Repo, Number: b.Ref.Number}
	if is := d.Facts.Issue(b.Ref); is != nil {
		m.Title = is.Title
	} else if p := d.Facts.Pull(b.Ref); p != nil {
		m.Title = p.Title
	}
	switch b.State {
	case forge.BlockerClosed:
		m.State = MemberDone
	case forge.BlockerUnmerged:
		m.fail(&Reason{Code: BlockerUnmerged, Refs: []forge.Ref{b.Ref}})
	default:
		d.openMember(&m, b)
	}
	return m
}

func (m *Member) fail(why *Reason) { m.State, m.Code, m.Why = MemberFailed, why.Code, why.Text() }

// openMember also takes what is not read: as long as nobody knows better, it is in the way.
func (d *decision) openMember(m *Member, b forge.Blocker) {
	if d.cancelled(b) {
		m.State = MemberCancelled
		return
	}
	for i := range d.Sessions {
		if s := &d.Sessions[i]; s.Item.Ref == b.Ref || s.Item.Chain == b.Ref {
			m.State, m.Agent = MemberRunning, s.Agent
			return
		}
	}
	why := &Reason{Code: NotRead}
	if w, err := d.find(b.Ref); err == nil {
		why = d.waits(w)
	}
	if why == nil {
		m.State = MemberReady
		return
	}
	m.State, m.Code, m.Why = stateOf(why), why.Code, why.Text()
	if why.Code == HasPull {
		d.follow(m, why.Refs)
	}
}

// waits is why an item is not worked on; nil when it starts now.
func (d *decision) waits(w *work) *Reason {
	switch {
	case w.taken:
		return nil
	case w.Reason != nil:
		return w.Reason
	}
	return d.objection(w)
}

// stateOf is the state of a member that waits for a reason.
func stateOf(why *Reason) MemberState {
	switch why.Code.Class() {
	case Failed:
		return MemberFailed
	case Begun:
		return MemberRunning
	case Ready, Unfit, Busy:
		return MemberReady
	}
	if why.Code == SkipLabel && (why.Note == forge.LabelBlocked || why.Note == forge.LabelNeedsHuman) {
		return MemberFailed
	}
	return MemberBlocked
}

// follow says of a member in review what its pull request waits for: a person may have to look at that.
func (d *decision) follow(m *Member, pulls []forge.Ref) {
	for _, ref := range pulls {
		w, err := d.find(ref)
		if err != nil {
			continue
		}
		if why := d.waits(w); why != nil {
			m.Why += ": " + why.Text()
			if stateOf(why) == MemberFailed {
				m.State, m.Code = MemberFailed, why.Code
			}
		}
	}
}

// cancelled reports whether a blocker was given up, also one that is still open: it will not be closed by work.
func (v *view) cancelled(b forge.Blocker) bool {
	if b.State != forge.BlockerOpen {
		return b.State == forge.BlockerCancelled
	}
	return v.dropped[b.Ref]
}

// indexDropped notes what is labelled cancelled: to look every blocker up took an eighth of the time of a plan.
func (v *view) indexDropped() {
	v.dropped = make(map[forge.Ref]bool)
	for i := range v.Facts.Issues {
		if is := &v.Facts.Issues[i]; is.Has(forge.LabelCancelled) {
			v.dropped[is.Ref] = true
		}
	}
	for i := range v.Facts.Pulls {
		if p := &v.Facts.Pulls[i]; p.Has(forge.LabelCancelled) {
			v.dropped[p.Ref] = true
		}
	}
}

// cancelledBlockers are those of an issue's blockers that were given up.
func (v *view) cancelledBlockers(is *forge.Issue) []forge.Ref {
	var refs []forge.Ref
	for _, b := range is.Blockers {
		if v.cancelled(b) {
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

// convoyOver asks for a convoy to be closed when all its members are. One without members has nothing to show, a staged
// one may not be complete yet, and one that waits for a person was looked at before. Whether the members were merged the
// forge is asked afresh before it is closed: of what ended long ago the facts say nothing.
func convoyOver(_ *view, w *work) *Reason {
	is := w.issue
	if is == nil || !is.Has(forge.LabelConvoy) || !is.BlockersKnown || len(is.Blockers) == 0 {
		return nil
	}
	if slices.ContainsFunc([]string{forge.LabelStaged, forge.LabelCancelled, forge.LabelNeedsHuman}, is.Has) {
		return nil
	}
	if slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool { return b.State != forge.BlockerClosed }) {
		return nil
	}
	return &Reason{Code: ConvoyOver, Refs: blockersIn(is, forge.BlockerClosed)}
}

// tracking is why nobody works on a convoy itself: how far its members are, or what keeps them all.
func tracking(is *forge.Issue) *Reason {
	for _, l := range []string{forge.LabelCancelled, forge.LabelNeedsHuman} {
		if is.Has(l) {
			return &Reason{Code: SkipLabel, Note: l}
		}
	}
	closed := blockersIn(is, forge.BlockerClosed)
	switch {
	case is.Has(forge.LabelStaged):
		return &Reason{Code: StagedConvoy, Refs: []forge.Ref{is.Ref}}
	case !is.BlockersKnown:
		return &Reason{Code: BlockersUnknown}
	case len(closed) == len(is.Blockers) && len(closed) > 0:
		return &Reason{Code: ConvoyOver, Refs: closed}
	}
	return &Reason{Code: Tracking, Count: len(closed), Limit: len(is.Blockers)}
}

// orphaned asks for a person where an issue waits for work that was cancelled: that will not come by itself.
func orphaned(v *view, w *work) *Reason {
	if w.Kind != agents.KindIssue || !w.queued || !w.issue.BlockersKnown {
		return nil
	}
	if refs := v.cancelledBlockers(w.issue); len(refs) > 0 {
		return &Reason{Code: BlockerCancelled, Refs: refs}
	}
	return nil
}

// circular names a circle of dependencies to people, once, on the first issue of it.
func circular(v *view, w *work) *Reason {
	if w.Kind != agents.KindIssue || !w.queued {
		return nil
	}
	if why := blocksItself(v, w); why != nil {
		return why
	}
	why := onCycle(v, w)
	if why == nil || slices.MinFunc(why.Refs, forge.Ref.Compare) != w.Ref {
		return nil
	}
	return why
}

// told reports whether people were told this very thing of an item before.
func (v *view) told(ref forge.Ref, why *Reason) bool { return v.History.Chain(ref).Told == why.Key() }
