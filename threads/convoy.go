package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// MemberState is the progress of one member of a convoy. Each member is in exactly one state, so that their counts
// add up: a convoy with many failed members must not look nearly done.
type MemberState string

// The states of a member.
const (
	MemberDone      MemberState = "done" // closed; where a pull request was for it, merged
	MemberFailed    MemberState = "failed"
	MemberCancelled MemberState = "cancelled"
	MemberRunning   MemberState = "running" // it has a session or an open pull request
	MemberReady     MemberState = "ready"   // it waits only for an agent and a slot
	MemberBlocked   MemberState = "blocked"
)

// ConvoyState is the progress of a convoy as a whole.
type ConvoyState string

// The states of a convoy. Whether a started convoy waits for a person, its members show.
const (
	ConvoyStaged    ConvoyState = "staged"
	ConvoyStarted   ConvoyState = "started"
	ConvoyDone      ConvoyState = "done"
	ConvoyCancelled ConvoyState = "cancelled"
)

// Convoy is a tracking issue with the progress of its members. Its JSON form is part of the control API.
type Convoy struct {
	Repo   string              `json:"repo"`
	Number int64               `json:"number"`
	Title  string              `json:"title"`
	State  ConvoyState         `json:"state"`
	Known  bool                `json:"known"` // whether its members have been read
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
	// Wave is 1 for members that can be worked on next, 2 for those that wait for the first wave, and so on; 0 for
	// members that are done or cancelled.
	Wave  int    `json:"wave"`
	Agent string `json:"agent"` // that works on it; empty without one
	Code  Code   `json:"code"`  // of the reason it waits; empty when it does not wait
	Why   string `json:"why"`
	// DependsOn are the other members that it depends on, finished ones included, as owner/name#12 and sorted. It is
	// empty for a member that was closed long ago: its dependencies are unknown.
	DependsOn []string `json:"depends_on,omitempty"`
}

// Ref names the member.
func (m *Member) Ref() forge.Ref { return forge.Ref{Repo: m.Repo, Number: m.Number} }

// Convoys returns all open convoys of the facts, sorted by reference.
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

// ConvoyOf returns the progress of a convoy that was read just now. Its members' reasons are those of Decide.
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
		m.DependsOn = d.dependsOn(b.Ref, is.Blockers)
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

// waves returns the wave of each member. Members on a dependency cycle, or behind one, are in the last wave.
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
		return unfinished(b) && slices.ContainsFunc(others, func(o forge.Blocker) bool { return o.Ref == b.Ref })
	})
}

// dependsOn returns the blockers of an issue that are among some others.
func (d *decision) dependsOn(ref forge.Ref, among []forge.Blocker) (names []string) {
	is := d.Facts.Issue(ref)
	if is == nil {
		return nil
	}
	for _, b := range is.Blockers {
		if b.Ref != ref && slices.ContainsFunc(among, func(o forge.Blocker) bool { return o.Ref == b.Ref }) {
			names = append(names, b.Ref.String())
		}
	}
	return names
}

func unfinished(b forge.Blocker) bool { return b.State != forge.BlockerClosed }

// member returns the progress of one issue that a convoy depends on.
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

// openMember fills in a member that is open or was not read. An unread one counts as blocked until it is known as
// closed.
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
	if why.Code == HasPull || why.Code == PeoplesPull {
		d.follow(m, why.Refs)
	}
}

// waits returns the reason why an item waits; nil when the plan starts or merges it.
func (d *decision) waits(w *work) *Reason {
	switch {
	case w.taken:
		return nil
	case w.Reason != nil:
		return w.Reason
	}
	return d.objection(w)
}

// stateOf returns the state of a member that has this reason.
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

// follow adds to a member in review the reason why its pull request waits. The member failed if its pull request did.
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

// cancelled reports whether a blocker was cancelled. It may still be open, and no work will close it.
func (v *view) cancelled(b forge.Blocker) bool {
	if b.State != forge.BlockerOpen {
		return b.State == forge.BlockerCancelled
	}
	return v.dropped[b.Ref]
}

// indexDropped notes the issues and pull requests labelled cancelled. To look up every blocker took an eighth of a
// plan's time.
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

// cancelledBlockers returns the cancelled blockers of an issue.
func (v *view) cancelledBlockers(is *forge.Issue) []forge.Ref {
	if is == nil { // a pull request
		return nil
	}
	return blockersThat(is, v.cancelled)
}

// convoyOver asks for a convoy to be closed when all its members are closed. A convoy without members has no result,
// a staged one may be incomplete, and one with needs-human was already handed to a person. Before it closes a convoy,
// the supervisor reads from the forge whether the members were merged, because the facts do not go back far enough.
func convoyOver(_ *view, w *work) *Reason {
	is := w.issue
	if is == nil || !is.Has(forge.LabelConvoy) || !is.BlockersKnown || len(is.Blockers) == 0 {
		return nil
	}
	if slices.ContainsFunc([]string{forge.LabelStaged, forge.LabelCancelled, forge.LabelNeedsHuman}, is.Has) {
		return nil
	}
	if slices.ContainsFunc(is.Blockers, unfinished) {
		return nil
	}
	return &Reason{Code: ConvoyOver, Refs: blockersIn(is, forge.BlockerClosed)}
}

// tracking returns the reason why a convoy itself is not worked on: its members' progress, or what holds all of them.
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
		return unknown(is)
	case len(closed) == len(is.Blockers) && len(closed) > 0:
		return &Reason{Code: ConvoyOver, Refs: closed}
	}
	return &Reason{Code: Tracking, Count: len(closed), Limit: len(is.Blockers)}
}

// orphaned hands an issue to a person if it waits for cancelled work, which will never be done.
func orphaned(v *view, w *work) *Reason {
	if w.Kind != agents.KindIssue || !w.queued || !w.issue.BlockersKnown {
		return nil
	}
	if refs := v.cancelledBlockers(w.issue); len(refs) > 0 {
		return &Reason{Code: BlockerCancelled, Refs: refs}
	}
	return nil
}

// circular reports a dependency cycle to people, once, on its first issue.
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
