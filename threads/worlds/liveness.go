package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// quiet reports whether a calm world has ended: nothing runs, no write is under way, the facts are newer than the
// last change, the plan is empty, and every hold needs a person.
func (sh *shell) quiet(s *threads.Snapshot, p *threads.Plan) bool {
	if len(sh.runs)+len(sh.writes)+len(p.Starts)+len(p.Stops)+len(p.Merges)+len(p.Marks) > 0 {
		return false
	}
	for _, r := range sh.facts.Repos {
		if !r.AsOf.After(sh.w.forge.changed) {
			return false
		}
	}
	for _, h := range p.Holds {
		if !sh.final(s, p, h, nil) {
			return false
		}
	}
	err := sh.w.forge.tidy()
	if err != nil && sh.w.Now.Sub(sh.w.forge.changed) > tidyTime {
		sh.w.fail("no claim is left behind", err)
	}
	return err == nil
}

// tidyTime is how long a claim may be left over: halfWritten, and the time to the next scan.
const tidyTime = halfWritten + 15*time.Minute

// final reports whether a hold lasts until a person acts. A reason that names other items is final if theirs are.
func (sh *shell) final(s *threads.Snapshot, p *threads.Plan, h *threads.Hold, path []forge.Ref) bool {
	all := func(refs []forge.Ref) bool {
		return allOf(refs, func(ref forge.Ref) bool { return sh.finalRef(s, p, ref, append(path, h.Ref)) })
	}
	switch h.Reason.Code {
	case threads.NotDue:
		return true
	case threads.AgentHeld, threads.NoAccess: // lasts until the configuration changes
		return h.Reason.Until.IsZero()
	case threads.BlockerOpen, threads.HasPull, threads.PeoplesPull, threads.NotLast:
		return all(h.Reason.Refs)
	case threads.MergedNotClosed:
		if sh.w.forge.pull(h.Ref) != nil {
			return all(h.Reason.Refs)
		}
		// Scans do not always read the dependencies of an issue that cannot be worked on.
		return all(sh.w.forge.openDeps(h.Ref))
	case threads.Unreviewed:
		var pulls []forge.Ref
		for _, other := range p.Holds {
			if s.Facts.Pull(other.Ref) != nil && other.Ref.Repo == h.Ref.Repo {
				pulls = append(pulls, other.Ref)
			}
		}
		return all(pulls)
	}
	return h.Reason.Code.Ends() >= threads.ByPerson // a convoy is final if its members are
}

// finalRef is final for a named item. An item outside the backlog waits for people.
func (sh *shell) finalRef(s *threads.Snapshot, p *threads.Plan, ref forge.Ref, path []forge.Ref) bool {
	if slices.Contains(path, ref) {
		return true
	}
	for _, h := range p.Holds {
		if h.Ref == ref {
			return sh.final(s, p, h, path)
		}
	}
	is := s.Facts.Issue(ref)
	return is == nil || !is.Has(forge.LabelBacklog)
}

// tidy returns an error for a claim of ours that is on the forge although nothing runs.
func (s *server) tidy() error {
	left := func(ref forge.Ref, labels, assignees []string) error {
		claimed := slices.Contains(labels, forge.LabelInProgress) && !slices.ContainsFunc(assignees, s.w.elsewhere)
		if claimed {
			return fmt.Errorf("%s is labelled %v and assigned to %v", ref, labels, assignees)
		}
		return nil
	}
	for _, r := range s.repos {
		for _, is := range s.openIssues(r) {
			if err := left(is.Ref, is.Labels, is.Assignees); err != nil {
				return err
			}
		}
		for _, p := range s.openPulls(r) {
			if err := left(p.Ref, p.Labels, p.Assignees); err != nil {
				return err
			}
		}
	}
	return nil
}

// allOf reports whether there are refs, and holds is true of each.
func allOf(refs []forge.Ref, holds func(forge.Ref) bool) bool {
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r forge.Ref) bool { return !holds(r) })
}
