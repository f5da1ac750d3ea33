package supervisor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// logged is a session that the journal names.
type logged struct {
	control.Log
	item forge.Ref
	at   time.Time
}

// FindLog finds the output of the newest session of an agent, or on an issue or pull request: 12, #12 or owner/name#12.
// It reads the state directory only, so it needs no supervisor. Sessions that never printed have none.
func FindLog(stateDir, of string) (control.Log, error) {
	list, err := loggedSessions(stateDir)
	if err != nil {
		return control.Log{}, err
	}
	const anywhere = "any/where"
	item, noRef := forge.ParseRef(of, anywhere)
	repos := make(map[string]bool)
	list = slices.DeleteFunc(list, func(l logged) bool {
		ours := l.Agent == of
		if noRef == nil {
			ours = l.item == item || item.Repo == anywhere && l.item.Number == item.Number
		}
		if _, err := os.Stat(l.Path); err != nil || !ours {
			return true
		}
		repos[l.item.Repo] = true
		return false
	})
	switch {
	case len(list) == 0:
		return control.Log{}, fmt.Errorf("cannot find a log of %s: no session of it is remembered; all logs are in %s",
			of, filepath.Join(stateDir, "logs"))
	case noRef == nil && len(repos) > 1:
		return control.Log{}, fmt.Errorf("cannot tell which repository %s is in: write owner/name#%d", of, item.Number)
	}
	newest := func(a, b logged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.RunID, b.RunID)) }
	return slices.MaxFunc(list, newest).Log, nil
}

// loggedSessions are the sessions that the journal still knows: those since it was compacted, and the newest before.
func loggedSessions(stateDir string) ([]logged, error) {
	text, err := os.ReadFile(filepath.Join(stateDir, "journal.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	records, _ := ledger.Parse(text)
	var list []logged
	add := func(run, agent string, item forge.Ref, at time.Time) {
		list = append(list, logged{control.Log{RunID: run, Agent: agent, Path: logPath(stateDir, agent, run)}, item, at})
	}
	for _, r := range records {
		switch {
		case r.Start != nil:
			add(r.Start.Run, r.Start.Agent, forge.Ref(r.Start.Item.Ref), r.At)
		case r.Open != nil:
			add(r.Open.Run, r.Open.Agent, forge.Ref(r.Open.Item.Ref), r.At)
		case r.Recent != nil:
			add(r.Recent.RunID, r.Recent.Agent, forge.Ref{Repo: r.Recent.Repo, Number: r.Recent.Number}, r.Recent.StartedAt)
		}
	}
	return list, nil
}

func logPath(stateDir, agent, run string) string {
	return filepath.Join(stateDir, ledger.LogPath(agent, run))
}

// findLog answers GET /v1/log: the log of an agent or item, and the secrets to hide in it.
func (s *Supervisor) findLog(of string) (control.Log, []string, error) {
	config := s.currentConfig()
	if config == nil {
		return control.Log{}, nil, control.NotNow(
			"not now: without a valid configuration nobody knows which secrets to hide in a log")
	}
	if item, err := s.item("", of); err == nil {
		of = item.String()
	}
	log, err := FindLog(s.StateDir, of)
	if err != nil {
		return log, nil, control.NotFound("%s", err)
	}
	return log, s.secretsOf(config), nil
}

// isRunning reports whether a session is not over.
func (s *Supervisor) isRunning(runID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[runID] != nil
}

// secretsOf returns the secrets of a configuration, and of those that running sessions were started with: after a
// reload a session may still print a token that has changed.
func (s *Supervisor) secretsOf(config *threads.Config) []string {
	list := configSecrets(config)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		if x.config != config {
			list = append(list, x.secrets()...)
		}
	}
	return list
}
