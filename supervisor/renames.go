package supervisor

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// renamesIn returns the new names in a configuration of what the ledger remembers under old ones; nil for none.
func (st *state) renamesIn(cfg *threads.Config) *ledger.Renamed {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := &ledger.Renamed{Agents: make(map[string]string), Threads: make(map[string]string)}
	for i := range cfg.Agents {
		if from := cfg.Agents[i].RenamedFrom; from != "" && st.ledger.Remembers(from, "") {
			r.Agents[from] = cfg.Agents[i].Name
		}
	}
	for i := range cfg.Threads {
		if from := cfg.Threads[i].RenamedFrom; from != "" && st.ledger.Remembers("", from) {
			r.Threads[from] = cfg.Threads[i].Name
		}
	}
	if len(r.Agents)+len(r.Threads) == 0 {
		return nil
	}
	return r
}

// droppedBy says what a new configuration drops: the pauses and today's usage of agents and threads that are gone from
// it, and that it does not rename.
func (st *state) droppedBy(cfg *threads.Config) (lines []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil {
		return nil
	}
	renamed := make(map[string]bool)
	for i := range cfg.Agents {
		renamed["agent "+cfg.Agents[i].RenamedFrom] = true
	}
	for i := range cfg.Threads {
		renamed["thread "+cfg.Threads[i].RenamedFrom] = true
	}
	drop := func(what, name string, pause threads.Pause, spent threads.Spent) {
		var parts []string
		if _, paused := st.ledger.Paused[pause]; paused {
			parts = append(parts, "its pause")
		}
		if spent = spent.Today(time.Now()); spent.Tokens > 0 || spent.USD > 0 {
			parts = append(parts, fmt.Sprintf("what it used today (%d tokens, $%.2f)", spent.Tokens, spent.USD))
		}
		if len(parts) > 0 && !renamed[what+" "+name] {
			lines = append(lines, fmt.Sprintf("%s %s is gone, and with it %s: if it has another name now, renamed_from = %q in "+
				"its table keeps them", what, name, strings.Join(parts, " and "), name))
		}
	}
	for i := range st.cfg.Agents {
		if name := st.cfg.Agents[i].Name; cfg.Agent(name) == nil {
			drop("agent", name, threads.Pause{Agent: name}, st.ledger.Agent(name).Spent)
		}
	}
	for i := range st.cfg.Threads {
		if name := st.cfg.Threads[i].Name; cfg.Thread(name) == nil {
			drop("thread", name, threads.Pause{Thread: name}, st.ledger.Thread(name).Spent)
		}
	}
	return lines
}

// reloadRenaming is state.reload for a configuration that may rename agents and threads. No decision sees the new names
// without what is remembered of the old ones.
func (s *Supervisor) reloadRenaming(cfg *threads.Config, change func()) {
	for _, line := range s.state.droppedBy(cfg) {
		s.log.Warn(line)
	}
	var renamed *ledger.Renamed
	if s.state.isOpen() {
		renamed = s.state.renamesIn(cfg)
	}
	ended := false
	defer func() {
		if ended && s.state.isOpen() { // the sessions in the journal would hold all that again after a restart
			s.journalled(s.state.rewrite())
		}
	}()
	if renamed == nil {
		ended = s.state.reload(cfg, change)
		return
	}
	r := ledger.Record{At: time.Now(), Renamed: renamed}
	s.journalled(s.state.journal.AppendPast(r, func() {
		ended = s.state.reload(cfg, func() {
			change()
			s.state.ledger.Apply(r)
		})
	}))
}

// renameAtStart renames what the configuration of the start renames.
func (s *Supervisor) renameAtStart() {
	if cfg := s.state.config(); cfg != nil {
		if renamed := s.state.renamesIn(cfg); renamed != nil {
			s.state.record(ledger.Record{At: time.Now(), Renamed: renamed})
		}
	}
}

// isOpen reports whether Run has read the journal.
func (st *state) isOpen() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.until != nil
}
