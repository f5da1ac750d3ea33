package supervisor

import (
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// notice is a log line. It is made under the lock and logged outside it, because logging is I/O.
type notice struct {
	bad   bool   // an error
	warn  bool   // a person must act
	run   string // the session that it is about; empty for none
	words string // nothing is logged if empty
}

func (c *core) logNotices(list ...notice) {
	for _, n := range list {
		log := c.log
		if n.run != "" {
			log = c.of(n.run)
		}
		switch {
		case n.words == "":
		case n.bad:
			log.Error(n.words)
		case n.warn:
			log.Warn(n.words)
		default:
			log.Info(n.words)
		}
	}
}

// of returns the log for lines about a session, which all have its run id: a search for it finds the whole session.
func (c *core) of(run string) hclog.Logger { return c.log.With("run", run) }

// tag begins a log line about an agent's work: [dev-qwen #11]. It names the repository only where several are
// configured.
func tag(cfg *threads.Config, agent string, item forge.Ref) string {
	return "[" + agent + wordsOf(cfg, item, " ") + "]"
}

// wordsOf returns an issue as log lines name it, after a separator; "" for scheduled work in the only repository.
func wordsOf(cfg *threads.Config, item forge.Ref, separator string) string {
	switch single := cfg != nil && len(cfg.Forge.Repos) == 1; {
	case single && item.Number == 0:
		return ""
	case single:
		return separator + item.Short()
	}
	return separator + item.String()
}

// logPath returns the path of a session's log.
func logPath(stateDir, agent, run string) string {
	return filepath.Join(stateDir, ledger.LogPath(agent, run))
}

// text returns an error as one line, "" for nil. Semicolons separate joined errors.
func text(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// task names the work on an item.
func task(it *threads.Item) string {
	switch it.Kind {
	case agents.KindIssue:
		return "implementation"
	case agents.KindSchedule:
		return "scheduled " + it.Role
	}
	return string(it.Kind)
}

// because returns the cause of a rework, or of a review of an approved head, in parentheses.
func because(it *threads.Item) string {
	if it.Cause == "" {
		return ""
	}
	return " (" + string(it.Cause) + ")"
}
