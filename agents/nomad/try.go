package nomad

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A try starts session-run once on each node that a session could have, as the session would be started, but without
// an order. It shows what no dry run does: whether the program, the account, the image and the sandbox are there.

// tryVar has the question of a try, in JSON; session-run then answers it instead of running a session.
const tryVar = "DISINTO_TRY"

// question is what session-run examines on its node.
type question struct {
	Format   int    // of the supervisor's orders
	User     string // account of the sessions; empty for none
	Isolated bool   // the driver keeps a session away from its node
	demands
}

// demands are what the sandbox of sessions needs from the kernel of a node.
type demands struct {
	Egress  bool `json:",omitempty"`
	Network bool `json:",omitempty"` // of their own
	Strict  bool `json:",omitempty"` // or sessions do not start
}

func demandsOf(j *agents.Job) demands {
	s := &j.Sandbox
	return demands{s.Egress != nil, s.OwnNetwork, s.Mode == agents.SandboxStrict}
}

const (
	tryTime  = 10 * time.Second // how long nodes have to answer
	pullTime = 5 * time.Minute  // how long Nomad has to fetch an image
	tryTick  = 100 * time.Millisecond
	tryMB    = 64
)

// tried is a node that was tried.
type tried struct {
	name   string
	why    string // why it cannot run sessions; empty if it can
	note   string // what it does not hold of their sandbox
	unread error  // the right to read files of its allocations is missing
}

// tryNodes tries the nodes of a session, and returns those that answered, sorted by name. Nodes without room for a
// small job are missing.
func (c *client) tryNodes(ctx context.Context, cfg Config, name string, job agents.Job) (list []tried, err error) {
	id := jobID(fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))
	limit := tryTime
	if job.Target.Driver == agents.DriverDocker {
		limit += pullTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := c.register(ctx, describeTry(id, &job, cfg)); err != nil {
		return nil, err
	}
	defer c.purge(ctx, id)
	for {
		allocs, over := []allocation(nil), false
		if allocs, err = c.allocations(ctx, id); isForbidden(err) {
			return nil, err
		} else if err == nil {
			over = len(allocs) > 0 && !slices.ContainsFunc(allocs, func(a allocation) bool { return a.live() })
			over = over || len(allocs) == 0 && c.settled(ctx, id)
		}
		if over || ctx.Err() != nil {
			return c.results(ctx, allocs), nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(tryTick):
		}
	}
}

// settled reports whether Nomad has decided where a job runs.
func (c *client) settled(ctx context.Context, id string) bool {
	var list []struct{ Status string }
	_, err := c.call(ctx, http.MethodGet, "/job/"+escape(id)+"/evaluations", nil, nil, &list)
	return err == nil && slices.ContainsFunc(list, func(e struct{ Status string }) bool { return e.Status == "complete" })
}

// purge removes a job, even if ctx is over.
func (c *client) purge(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	_, _ = c.call(ctx, http.MethodDelete, "/job/"+escape(id), url.Values{"purge": {"true"}}, nil, nil)
}

// results returns the answers of allocations that have ended.
func (c *client) results(ctx context.Context, allocs []allocation) (list []tried) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	for i := range allocs {
		a := &allocs[i]
		t, x := tried{name: oneLine(a.NodeName)}, a.exit()
		d, err := (*document)(nil), error(nil)
		if x.started {
			d, err = c.getDocument(ctx, a.ID)
		}
		if isForbidden(err) {
			t.unread = err
		}
		switch {
		case a.live():
			t.why = "it has not started session-run in time"
			if x.words != "" {
				t.why += ": " + x.words
			}
		case !x.started:
			t.why = "it cannot start session-run: " + x.words
		case x.result != agents.Done:
			if t.why = "session-run ended with: " + x.words; err == nil && d.Outcome != nil {
				t.why = d.Outcome.Reason
			}
		case err == nil && d.Outcome != nil:
			t.note = oneLine(d.Outcome.Reason)
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b tried) int { return cmp.Compare(a.name, b.name) })
	return list
}

// describeTry returns the job of a try, which runs once on each node that fits.
func describeTry(id string, j *agents.Job, cfg Config) table {
	text, _ := json.Marshal(question{orderFormat, j.User, isolated(j), demandsOf(j)})
	t := task(j, cfg)
	t["Env"].(table)[tryVar] = string(text)
	t["Resources"] = table{"CPU": sessionMHz / 4, "MemoryMB": tryMB}
	t["LogConfig"] = table{"MaxFiles": 1, "MaxFileSizeMB": 1}
	g := bareGroup(j, cfg)
	g["EphemeralDisk"], g["Tasks"] = table{"SizeMB": 10}, []table{t}
	job := whereabouts(id, j, cfg)
	job["Type"], job["Priority"], job["TaskGroups"] = "sysbatch", defaultPriority, []table{g}
	return job
}

// answer examines this node for a try.
func (p *SessionRun) answer(text string) agents.Outcome {
	var q question
	var lacks []string
	if err := json.Unmarshal([]byte(text), &q); err != nil || q.Format > orderFormat {
		lacks = append(lacks, "its disinto is older than the supervisor's")
	}
	if _, err := user.Lookup(q.User); q.User != "" && err != nil {
		lacks = append(lacks, "it has no account "+q.User)
	}
	if q.User == "" && !q.Isolated && p.NoSandbox != nil {
		if err := p.NoSandbox(); err != nil {
			lacks = append(lacks, fmt.Sprintf("%s, and it has none: %s", errExposed, err))
		}
	}
	var note error
	if p.Unheld != nil {
		note = p.Unheld(q.Egress, q.Network)
	}
	if note != nil && q.Strict {
		lacks = append(lacks, "their sandbox is strict: "+note.Error())
	}
	if !inPath(p.getenv("PATH"), "git") {
		lacks = append(lacks, "it has no git")
	}
	if len(lacks) > 0 {
		return agents.Outcome{Result: agents.NoPlace, Reason: oneLine(strings.Join(lacks, "; "))}
	}
	if note != nil {
		return agents.Outcome{Result: agents.Done, Reason: oneLine(note.Error())}
	}
	return agents.Outcome{Result: agents.Done}
}

// inPath reports whether a program is in a folder of PATH.
func inPath(searched, program string) bool {
	return slices.ContainsFunc(filepath.SplitList(searched), func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, program))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}
