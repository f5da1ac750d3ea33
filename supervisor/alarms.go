package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// alarms returns what a person must know of, however many sessions and items it holds.
func (s *Supervisor) alarms(now time.Time) []control.AlarmDocument {
	return slices.Concat(s.ownAlarms(now), s.state.peerAlarms(s.StateDir),
		s.state.failingCrews(now), s.state.failingRuns(), s.state.redBranches(), s.state.drainAlarms())
}

// ownAlarms are about the supervisor itself: its token, its web hooks and its disk.
func (s *Supervisor) ownAlarms(now time.Time) (list []control.AlarmDocument) {
	config := s.state.config()
	if config == nil {
		return nil
	}
	add := func(code threads.Code, about, words string) {
		list = append(list, control.AlarmDocument{Code: code, About: about, Words: words})
	}
	if lost := s.problems.lostWords(); lost != "" {
		add(control.Journal, "journal.jsonl", lost)
	}
	if s.state.rejected() {
		add(threads.TokenRejected, control.OwnToken, "the forge rejects the supervisor's own token, and nothing starts: "+
			"put a new one into factory.toml or secrets.env, which are read at once; after a change of a variable of the "+
			"environment restart disinto")
	}
	file := ""
	if s.Exposed != nil {
		file = s.Exposed()
	}
	if file != "" {
		words := "others could read " + file + " until disinto made it private again: put new tokens there"
		if config.Factory.User == "" {
			words += ", and set [factory] user, because agents with disinto's account can change its mode"
		}
		add(control.Exposed, file, words)
	}
	if repo := s.scanner.hints.stale(now); repo != "" {
		add(control.HookSecret, "[forge] webhook_secret", "web hooks of "+repo+" are not signed with [forge] "+
			"webhook_secret and are refused, so work starts later: disinto check --fix registers them again")
	}
	unwritten := s.problems.journalError()
	full := errors.Is(unwritten, syscall.ENOSPC) || errors.Is(unwritten, syscall.EDQUOT)
	if room := s.room(); room != nil && room.Disk < config.Factory.MinFreeDisk {
		full = true
	}
	if full {
		words := "the disk with " + s.StateDir + " is full, and nothing starts: free some"
		if owed := s.receipting.owing(); owed > 0 {
			words += "; in memory until there is room: " + control.Count(owed, "receipt")
		}
		add(threads.NoRoom, s.StateDir, words)
	} else if unwritten != nil {
		why := strings.TrimPrefix(text(unwritten), "cannot write the journal: ")
		add(control.Journal, s.StateDir, "nothing starts, because the journal takes no line: "+why+": mend that, or its disk")
	}
	return list
}

func (st *state) rejected() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read.rejected
}

// failingRuns returns the scheduled work that has failed many times in a row.
func (st *state) failingRuns() (list []control.AlarmDocument) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for key, it := range st.ledger.Items {
		if it.Runs.Failed < threads.RunsFailing || !st.employsLocked(threads.Crew{Role: key.Role}) {
			continue
		}
		about := key.Role + " on " + key.Ref.Repo
		list = append(list, control.AlarmDocument{
			Code: threads.AgentFailing, About: about, Since: it.Runs.Since,
			Words: fmt.Sprintf("%s failed %d times in a row, last: %s: see disinto logs %s; disinto start %s --repo %s tries "+
				"it now", about, it.Runs.Failed, it.Runs.Words, it.Runs.Agent, key.Role, key.Ref.Repo),
		})
	}
	slices.SortFunc(list, func(a, b control.AlarmDocument) int { return strings.Compare(a.About, b.About) })
	return list
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
			Words: s.Words(crew) + next + ": correct what disinto logs " + last +
				" says; a reload of factory.toml then tries at once",
		})
	}
	return list
}

// employsLocked reports whether the configuration still has an agent, a thread or a role.
func (st *state) employsLocked(c threads.Crew) bool {
	return st.cfg != nil && (st.cfg.Agent(c.Agent) != nil || st.cfg.Thread(c.Thread) != nil || st.cfg.Role(c.Role) != nil)
}
