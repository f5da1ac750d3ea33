package supervisor

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// upkeep counts what should never be needed: in a month without faults all of it stays 0.
type upkeep struct {
	violations int             // rules that were found broken, each counted once for as long as it is
	violation  string          // the newest
	breaking   map[string]bool // those that the newest plan broke
	repairs    int             // claims that were left over and taken off
}

// planLocked is the plan of this moment, less what would break a rule.
func (s *Supervisor) planLocked(now time.Time, room *threads.Room) (threads.Plan, []threads.Violation) {
	snap := s.snapshotLocked(now, room)
	plan := s.Decide(snap)
	broken := threads.Enforce(&snap, &plan)
	return plan, broken
}

// violatedLocked counts the violations that are new, and says so.
func (s *Supervisor) violatedLocked(found []threads.Violation) (news []notice) {
	breaking := make(map[string]bool, len(found))
	for _, v := range found {
		breaking[v.Words] = true
		if s.upkeep.breaking[v.Words] {
			continue
		}
		s.upkeep.violations++
		s.upkeep.violation = v.Words
		news = append(news, notice{bad: true, words: fmt.Sprintf("%s internal error, kept back: %s", tag(s.config, "", v.Ref), v.Words)})
	}
	s.upkeep.breaking = breaking
	return news
}

// repaired counts a chore that mended what should not have been.
func (u *upkeep) repaired(a threads.Action) {
	if a == threads.ActRelease || a == threads.ActUnlabel {
		u.repairs++
	}
}

// lines are the violations in words.
func (u *upkeep) lines() []string {
	if u.violations == 0 {
		return nil
	}
	return []string{fmt.Sprintf("internal error: %d times a rule would have been broken, last: %s", u.violations, u.violation)}
}
