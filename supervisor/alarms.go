package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// alarms returns what a person must know of, however many sessions and items it holds.
func (s *Supervisor) alarms(now time.Time) []control.AlarmDocument {
	return append(s.state.failingCrews(now), s.state.redBranches()...)
}

// redBranches returns the branches whose newest commit has failing checks.
func (st *state) redBranches() (list []control.AlarmDocument) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, r := range st.facts.Repos {
		for _, b := range r.Branches {
			if b.CI != forge.CIFailure {
				continue
			}
			words := fmt.Sprintf("%s: %s is red since %s: %s", r.Name, b.Name, b.Since.Format(time.RFC3339),
				strings.Join(b.Red, ", "))
			if st.cfg != nil && !st.cfg.Forge.MergeOnRed {
				words += "; merges wait"
			}
			if b.By.Number != 0 {
				words += fmt.Sprintf("; the merge of %s did it: disinto start --repo %s --priority 1 --title \"Revert %s\" "+
					"has an agent revert it", b.By, r.Name, b.By.Short())
			}
			list = append(list, control.AlarmDocument{
				Code: threads.MainRed, About: r.Name + " " + b.Name, Since: b.Since, Words: words,
			})
		}
	}
	return list
}

// failingCrews returns the agents, threads and roles that fail whatever they do.
func (st *state) failingCrews(now time.Time) (list []control.AlarmDocument) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, crew := range slices.SortedFunc(maps.Keys(st.ledger.Failing), threads.Crew.Compare) {
		s := st.ledger.Failing[crew]
		if !s.Failing() || !st.employsLocked(crew) {
			continue
		}
		next := "; one try is due"
		if s.Until.After(now) {
			next = "; next try " + s.Until.Format(time.RFC3339)
		}
		last := s.Failures[len(s.Failures)-1].Agent
		list = append(list, control.AlarmDocument{
			Code: threads.AgentFailing, About: crew.String(), Since: s.Since,
			Words: s.Words(crew) + next + ": see disinto logs " + last + "; a reload of factory.toml tries at once",
		})
	}
	return list
}

// employsLocked reports whether the configuration still has an agent, a thread or a role.
func (st *state) employsLocked(c threads.Crew) bool {
	return st.cfg != nil && (st.cfg.Agent(c.Agent) != nil || st.cfg.Thread(c.Thread) != nil || st.cfg.Role(c.Role) != nil)
}

// alarmLog logs each alarm once, and its end. The zero value has logged none. One goroutine uses it.
type alarmLog struct{ standing map[string]string }

// news returns the log lines of a new list of alarms.
func (a *alarmLog) news(list []control.AlarmDocument) (lines []notice) {
	now := make(map[string]string, len(list))
	for i := range list {
		key := string(list[i].Code) + " " + list[i].About
		if now[key] = list[i].About; a.standing[key] == "" {
			lines = append(lines, notice{warn: true, words: list[i].Words})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.standing)) {
		if now[key] == "" {
			lines = append(lines, notice{words: "over: " + key})
		}
	}
	a.standing = now
	return lines
}
