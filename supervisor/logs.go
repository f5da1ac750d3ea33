package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// serviceRun is the run id of a service's log, which holds the output of all its runs.
const serviceRun = "service"

// prints reports whether the log of a run may still grow.
func (h *history) prints(run string) bool {
	return run == serviceRun && h.gate.isOpen() || h.state.running(run)
}

// logged is the log of a session in the journal.
type logged struct {
	control.Log
	item  forge.Ref
	chain forge.Ref // the issue that it was for; the item where a record does not say
}

// FindLogs returns the logs that the query selects: of an agent's sessions, of the sessions on an issue with its pull
// requests, or on a pull request (12, #12, owner/name#12 or its address), or of a service. It reads the state directory
// only, so it needs no supervisor. A session that printed nothing has no log.
func FindLogs(stateDir string, q control.LogQuery) (control.FoundLogs, error) {
	if filepath.IsLocal(q.Of) && !strings.Contains(q.Of, "/") && exists(serviceFolder(stateDir, q.Of)) {
		return serviceLogs(stateDir, q)
	}
	const anywhere = "any/where"
	item, noRef := forge.ParseRef(q.Of, anywhere)
	seen := make(map[string]bool)
	logs, repos, err := logsWhere(stateDir, func(l *logged) bool {
		seen[l.Agent] = true
		if noRef != nil {
			return l.Agent == q.Of
		}
		return slices.ContainsFunc([]forge.Ref{l.item, l.chain}, func(of forge.Ref) bool {
			return of == item || item.Repo == anywhere && of.Number == item.Number
		})
	})
	switch {
	case err != nil:
		return control.FoundLogs{}, err
	case len(logs) == 0:
		return control.FoundLogs{}, noLog(stateDir, q.Of, noRef == nil, slices.Sorted(maps.Keys(seen)))
	case noRef == nil && len(repos) > 1:
		return control.FoundLogs{}, fmt.Errorf(
			"cannot tell which repository %s is in: write owner/name#%d", q.Of, item.Number)
	}
	found, err := q.Choose(logs)
	found.Waits = noRef != nil
	return found, err
}

// serviceLogs returns the log of a service. A reader that follows waits for one that is missing.
func serviceLogs(stateDir string, q control.LogQuery) (found control.FoundLogs, err error) {
	log := ServiceLog(stateDir, q.Of)
	if !exists(log) && !q.Follow {
		return found, fmt.Errorf("cannot find the log of service %s: it has printed nothing yet, or nothing since its "+
			"log %s was deleted", q.Of, log)
	}
	return control.FoundLogs{Shown: []control.Log{{RunID: serviceRun, Agent: q.Of, Path: log, Lines: q.Lines}}}, nil
}

// noLog returns the error for a missing log, with the logs that exist.
func noLog(stateDir, of string, isRef bool, worked []string) error {
	why := "no agent has worked here yet"
	switch {
	case len(worked) > 0 && isRef:
		why = "no session on it is remembered; disinto history lists the others"
	case len(worked) > 0:
		why = "no session of an agent with this name is remembered, only of " + strings.Join(worked, ", ") +
			threads.Suggest(of, worked)
	}
	return fmt.Errorf("cannot find a log of %s: %s; all logs are in %s", of, why, filepath.Join(stateDir, "logs"))
}

// logsWhere returns the logs of the sessions that fit, oldest first, and the repositories of their items.
func logsWhere(stateDir string, fits func(*logged) bool) (logs []control.Log, repos map[string]bool, err error) {
	file, err := journal.ReadOnly(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("cannot find a log: no supervisor has worked in %s; "+
			"start one with disinto run, or use --state", stateDir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	defer file.Close()
	repos, seen := make(map[string]bool), make(map[string]bool)
	err = ledger.Read(file, func(r ledger.Record) {
		l, is := sessionIn(stateDir, &r)
		if !is || seen[l.RunID] || !fits(&l) {
			return
		}
		if _, err := os.Lstat(l.Path); err != nil {
			return
		}
		seen[l.RunID], repos[l.item.Repo] = true, true
		logs = append(logs, l.Log)
	}, func(_, _ int64) {})
	slices.SortFunc(logs, func(a, b control.Log) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.RunID, b.RunID))
	})
	return logs, repos, err
}

// sessionIn returns the session of a journal record. Compaction keeps the newest sessions.
func sessionIn(stateDir string, r *ledger.Record) (l logged, is bool) {
	switch {
	case r.Start != nil:
		l = logOf(r.Start.Run, r.Start.Agent, r.Start.Item.Kind, r.Start.Item.Ref, r.Start.Chain, r.At)
	case r.Open != nil:
		l = logOf(r.Open.Run, r.Open.Agent, r.Open.Item.Kind, r.Open.Item.Ref, r.Open.Chain, r.At)
	case r.Recent != nil:
		item := ledger.Ref{Repo: r.Recent.Repo, Number: r.Recent.Number}
		l = logOf(r.Recent.RunID, r.Recent.Agent, r.Recent.Kind, item, item, r.Recent.StartedAt)
	case r.Past != nil && r.Past.Run != "":
		l = logOf(r.Past.Run, r.Past.Agent, r.Past.Kind, r.Past.Ref, r.Past.Chain, r.Past.Start)
	default:
		return l, false
	}
	l.Path = logPath(stateDir, l.Agent, l.RunID)
	return l, true
}

func logOf(run, agent string, kind agents.Kind, item, chain ledger.Ref, at time.Time) logged {
	ref := forge.Ref(item)
	log := control.Log{RunID: run, Agent: agent, Work: string(kind) + " " + ref.String(), Began: at}
	return logged{log, ref, forge.Ref(chain)}
}

// findLogs answers GET /v1/log: the logs of an agent or item, and the secrets to hide in them.
func (h *history) findLogs(q control.LogQuery) (control.FoundLogs, error) {
	config := h.state.config()
	if config == nil {
		return control.FoundLogs{}, control.NotNow(
			"not now: without a valid configuration the secrets to redact in a log are unknown")
	}
	if item, err := h.item("", q.Of); err == nil {
		q.Of = item.String()
	}
	find := FindLogs
	if config.Service(q.Of) != nil {
		find = serviceLogs // it may not have run yet
	}
	found, err := find(h.stateDir, q)
	if err != nil {
		return found, control.NotFound("%s", err)
	}
	var runs []string
	for _, l := range found.Shown {
		runs = append(runs, l.RunID)
	}
	found.Secrets = h.state.secretsOf(config, runs...)
	return found, nil
}
