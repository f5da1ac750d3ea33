package supervisor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
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

// FindLog returns the output of the newest session of an agent, or on an issue or pull request: 12, #12 or
// owner/name#12. It reads the state directory only, so it needs no supervisor. A session that printed nothing has no
// log.
func FindLog(stateDir, of string) (control.Log, error) {
	file, err := os.Open(filepath.Join(stateDir, "journal.jsonl"))
	if err != nil {
		return control.Log{}, fmt.Errorf("cannot read the journal: %w", err)
	}
	defer file.Close()
	const anywhere = "any/where"
	item, noRef := forge.ParseRef(of, anywhere)
	var newest logged
	repos := make(map[string]bool)
	err = ledger.Read(file, func(r ledger.Record) {
		l, is := sessionIn(stateDir, &r)
		asked := l.Agent == of
		if noRef == nil {
			asked = l.item == item || item.Repo == anywhere && l.item.Number == item.Number
		}
		if !is || !asked {
			return
		}
		if _, err := os.Lstat(l.Path); err != nil {
			return
		}
		repos[l.item.Repo] = true
		if cmp.Or(l.at.Compare(newest.at), cmp.Compare(l.RunID, newest.RunID)) > 0 {
			newest = l
		}
	}, func(_, _ int64) {})
	switch {
	case err != nil:
		return control.Log{}, err
	case len(repos) == 0:
		return control.Log{}, fmt.Errorf("cannot find a log of %s: no session of it is remembered; all logs are in %s",
			of, filepath.Join(stateDir, "logs"))
	case noRef == nil && len(repos) > 1:
		return control.Log{}, fmt.Errorf("cannot tell which repository %s is in: write owner/name#%d", of, item.Number)
	}
	return newest.Log, nil
}

// sessionIn returns the session that a record of the journal names. Compaction keeps the newest.
func sessionIn(stateDir string, r *ledger.Record) (l logged, is bool) {
	switch {
	case r.Start != nil:
		l = logged{control.Log{RunID: r.Start.Run, Agent: r.Start.Agent}, forge.Ref(r.Start.Item.Ref), r.At}
	case r.Open != nil:
		l = logged{control.Log{RunID: r.Open.Run, Agent: r.Open.Agent}, forge.Ref(r.Open.Item.Ref), r.At}
	case r.Recent != nil:
		item := forge.Ref{Repo: r.Recent.Repo, Number: r.Recent.Number}
		l = logged{control.Log{RunID: r.Recent.RunID, Agent: r.Recent.Agent}, item, r.Recent.StartedAt}
	default:
		return l, false
	}
	l.Path = logPath(stateDir, l.Agent, l.RunID)
	return l, true
}

// findLog answers GET /v1/log: the log of an agent or item, and the secrets to hide in it.
func (s *Supervisor) findLog(of string) (control.Log, []string, error) {
	config := s.books.config()
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

// secretsOf returns the secrets of a configuration, and of those that running sessions were started with: after a
// reload a session may still print a token that has changed.
func (s *Supervisor) secretsOf(config *threads.Config) []string {
	list := secretsOf(config)
	for _, x := range s.books.others(config) {
		list = append(list, x.secrets...)
	}
	return list
}
