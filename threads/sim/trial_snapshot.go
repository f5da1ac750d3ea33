package sim

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// snapshot returns the snapshot that the policy shows to the scheduler. If whole is false, only the oldest issues of
// each group are in it: no more can start than there are agents.
func (tr *trial) snapshot(whole bool) threads.Snapshot {
	return tr.snapshotFor(func(t *trialIssue) []string { return t.Assignees }, !whole, false)
}

// truth returns the snapshot of the real work, including what the policy hides or has assigned to an agent.
func (tr *trial) truth() threads.Snapshot {
	s := tr.snapshotFor(func(t *trialIssue) []string {
		if t.running > 0 {
			return t.Assignees
		}
		return pinned(t.Pin)
	}, true, true)
	s.Config = tr.eager
	return s
}

// alike is the key of a group of issues that the same agents may take: labels and assignees.
type alike struct{ labels, who string }

func (tr *trial) snapshotFor(assignees func(*trialIssue) []string, brief, hidden bool) threads.Snapshot {
	s := threads.Snapshot{
		Now: tr.Now, Config: tr.Config, History: tr.books.History, Caches: tr.caches(), Outages: tr.down,
	}
	s.History.Threads = tr.parked()
	for _, r := range tr.repos {
		if r.AsOf = tr.Now; tr.merging[r.Name] {
			r.AsOf = time.Time{}
		}
		s.Facts.Repos = append(s.Facts.Repos, r)
	}
	slices.SortFunc(s.Facts.Repos, func(a, b forge.Repo) int { return cmp.Compare(a.Name, b.Name) })
	shown := tr.shown(brief, hidden)
	s.Facts.Issues = make([]forge.Issue, len(shown))
	for i, t := range shown {
		s.Facts.Issues[i] = t.Issue
		s.Facts.Issues[i].Assignees = assignees(t)
	}
	pulls := slices.Clone(tr.pulls)
	slices.SortFunc(pulls, func(a, b *trialIssue) int { return a.pull.Compare(b.pull.Ref) })
	s.Facts.Pulls = make([]forge.Pull, len(pulls))
	for i, t := range pulls {
		s.Facts.Pulls[i] = *t.pull
	}
	runs := slices.Clone(tr.runs)
	slices.SortFunc(runs, func(a, b *trialRun) int { return cmp.Compare(a.RunID, b.RunID) })
	s.Sessions = make([]threads.Session, len(runs))
	for i, x := range runs {
		s.Sessions[i] = x.Session
	}
	return s
}

// shown returns the open issues, sorted; if brief, without those that cannot start, and the younger ones of each group.
func (tr *trial) shown(brief, hidden bool) (list []*trialIssue) {
	seen := make([]int, len(tr.groups))
	for _, t := range tr.issues {
		if t.Closed || t.hidden && !hidden || brief && (t.stuck || t.blocked > 0) {
			continue
		}
		if waits := t.running == 0 && t.pull == nil && t.begun.IsZero(); brief && waits {
			if seen[t.group]++; seen[t.group] > len(tr.Config.Agents) {
				continue
			}
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *trialIssue) int { return a.Issue.Compare(b.Issue.Ref) })
	return list
}

// caches returns the room in the memories of the servers.
func (tr *trial) caches() map[string]threads.ServerCache {
	caches := make(map[string]threads.ServerCache, len(tr.memories))
	for name, m := range tr.memories {
		caches[name] = threads.ServerCache{Tokens: m.room}
	}
	return caches
}
