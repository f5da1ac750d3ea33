package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/logtime"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/disk"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
)

// The state directory is cleared in passes. A pass lists everything that could be deleted, oldest first. It deletes
// the entries that are due, and, while the disk is short of space, even others.
const (
	passRest  = time.Hour
	shortRest = time.Minute // between two checks of the free disk
	saveTime  = time.Minute // bounds the push of a workspace
)

// clearing has the result of the newest pass, for the status.
type clearing struct {
	mu      sync.Mutex // guards the fields below
	found   control.DiskDocument
	unsaved map[string]string // why a due entry stays, by path
}

// leftover is a file or folder that may be deleted.
type leftover struct {
	disk.Entry
	chain forge.Ref // of a workspace
	open  bool      // the chain of the workspace is not over
	since time.Time // its last use
	due   time.Time
}

// beside reports whether the leftover is the file beside a log with the times of its lines.
func (l *leftover) beside() bool {
	return l.Folder == disk.Logs && strings.HasSuffix(l.Name, logtime.Suffix)
}

// path returns the leftover's path in the state directory.
func (l *leftover) path() string { return path.Join(l.Folder, l.Agent, l.Name) }

// cleaner deletes from the state directory what is no longer needed.
type cleaner struct {
	*core
	inference  *inference
	receipting *receipting
	sessions   *sessionRunner
	executor   Executor
	saver      []string // the command that pushes the unpushed work in a workspace; nil pushes nothing
	stateDir   string
	clearing   clearing
}

// keepDisk clears the state directory until ctx is done.
func (k *cleaner) keepDisk(ctx context.Context) {
	for next := time.Now().Add(shortRest); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(shortRest):
		}
		config, full := k.state.config(), !time.Now().Before(next)
		if config == nil || !full && !k.short(config, 0) {
			continue
		}
		if k.clear(ctx, config, full) && full {
			next = time.Now().Add(passRest)
		}
	}
}

// short reports whether the free disk is below min_free_disk plus more.
func (k *cleaner) short(config *threads.Config, more int64) bool {
	if config.Factory.MinFreeDisk == 0 {
		return false
	}
	room := k.room()
	return room != nil && room.Disk < config.Factory.MinFreeDisk+more
}

// clear is one pass. Only a full pass retries the pushes that failed in the previous pass. done is false if a
// workspace was in use.
func (k *cleaner) clear(ctx context.Context, config *threads.Config, full bool) (done bool) {
	state, err := disk.Open(k.stateDir)
	if err != nil {
		k.log.Error(text(err))
		return true
	}
	done = true
	defer state.Close()
	if full {
		k.deleteOver(config)
		k.receipting.pruneReceipts(config)
	}
	list, found := k.leftovers(state, config)
	more := int64(0) // hysteresis: free a quarter more than the minimum, or each new log line starts another pass
	unsaved, deleted := make(map[string]string), 0
	for _, l := range list {
		if l.due.After(time.Now()) && !k.short(config, more) || ctx.Err() != nil {
			continue
		}
		if l.due.After(time.Now()) {
			more = config.Factory.MinFreeDisk / 4
		}
		if why := k.clearing.why(l.path()); why != "" && !full {
			unsaved[l.path()] = why
			continue
		}
		switch err := k.remove(ctx, state, config, l); {
		case err == nil:
			if !l.beside() {
				deleted++
			}
			discount(&found, l)
		case errors.Is(err, errInUse):
			done = false
		default:
			unsaved[l.path()] = err.Error()
		}
	}
	if deleted > 0 {
		k.log.Info(fmt.Sprintf("deleted %d old logs, results and workspaces", deleted))
		k.kicks.all(time.Time{})
	}
	if room := k.room(); room != nil {
		found.Free = room.Disk
	}
	k.clearing.set(found, unsaved, deleted)
	k.touchStatus()
	return done
}

// discount subtracts a deleted entry from the totals.
func discount(found *control.DiskDocument, l leftover) {
	switch l.Folder {
	case disk.Logs:
		if !l.beside() {
			found.Logs--
		}
		found.LogBytes -= l.Bytes
	case disk.Work:
		found.Workspaces--
	}
}

// leftovers lists the entries that may be deleted, oldest first, and counts all of them.
func (k *cleaner) leftovers(
	state *disk.State, config *threads.Config,
) (list []leftover, found control.DiskDocument) {
	now, keep := time.Now(), config.Factory.Keep
	for _, e := range state.List(disk.Logs) {
		log, isTimes := strings.CutSuffix(e.Name, logtime.Suffix)
		if !k.state.runs(strings.TrimSuffix(log, ".log")) { // otherwise it grows until the next pass
			if found.LogBytes += e.Bytes; !isTimes {
				found.Logs++
			}
			list = append(list, leftover{Entry: e, since: e.At, due: e.At.Add(keep)})
		}
	}
	for _, e := range state.List(disk.Results) {
		l := leftover{Entry: e, since: e.At, due: e.At.Add(keep)}
		if e.IsDir || e.Bytes > agents.MaxResult || e.At.After(now) { // the agent owns this folder and can put anything there
			l.due = now
		}
		if !k.state.runs(strings.TrimSuffix(e.Name, path.Ext(e.Name))) {
			list = append(list, l)
		}
	}
	for _, e := range state.List(disk.Work) {
		found.Workspaces++
		chain, ok := chainOf(e.Name)
		since, use := k.state.lastUse(e.Agent, chain)
		if e.At.After(since) && !e.At.After(now) {
			since = e.At
		}
		l := leftover{Entry: e, chain: chain, open: use == idle, since: since, due: since.Add(config.Factory.KeepWorkspaces)}
		if !ok || use == inUse || l.open && l.due.After(now) {
			continue
		}
		if l.open {
			l.due = since.Add(keep)
		}
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b leftover) int {
		if a.open != b.open { // what somebody may continue goes last
			return map[bool]int{false: -1, true: 1}[a.open]
		}
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.Name, b.Name))
	})
	return list, found
}

// errInUse means that a workspace must stay: its agent works, or continues the chain.
var errInUse = errors.New("in use")

// remove deletes a leftover. Before it deletes a workspace, it pushes the work there. Meanwhile nothing starts in it.
func (k *cleaner) remove(ctx context.Context, state *disk.State, config *threads.Config, l leftover) error {
	if l.Folder != disk.Work {
		return state.Remove(l.Entry)
	}
	write := k.state.beginWriteOver(l.Agent, l.chain, l.open)
	if write == nil {
		return errInUse
	}
	defer k.state.endWriteOver(write)
	saved, err := "", error(nil)
	if l.IsDir {
		saved, err = k.saveWork(ctx, config, l)
	}
	if err != nil && l.open {
		return fmt.Errorf("cannot save the work in %s: %w; it stays, because %s is open", l.path(), err, l.chain)
	}
	if err != nil && time.Since(l.since) < config.Factory.Keep {
		return fmt.Errorf("cannot save the work in %s: %w; it stays until %s", l.path(),
			err, l.since.Add(config.Factory.Keep).UTC().Format(time.DateOnly))
	}
	if err := state.Remove(l.Entry); err != nil {
		return err
	}
	if l.open {
		saved = strings.TrimSuffix("not used since "+l.since.UTC().Format(time.DateOnly)+"; "+saved, "; ")
	}
	if saved != "" {
		k.log.Info(tag(config, l.Agent, l.chain) + " workspace deleted: " + saved)
	}
	return nil
}

// saveWork runs SaveWork as the workspace's agent, to push the work that is not on the forge. It returns the program's
// report.
func (k *cleaner) saveWork(ctx context.Context, config *threads.Config, l leftover) (string, error) {
	agent := config.Agent(l.Agent)
	switch {
	case agent == nil:
		return "", errors.New("there is no such agent any more")
	case agent.Token == "" || len(agent.Roles) == 0 || config.Role(agent.Roles[0]) == nil || len(k.saver) == 0:
		return "", errors.New("the agent cannot push")
	}
	x := &session{
		Session: threads.Session{
			RunID: journal.NewRun(k.Instance()), Agent: agent.Name, Role: agent.Roles[0], // takes no slot
			Item: threads.Item{Kind: agents.KindIssue, Ref: l.chain, Chain: l.chain}, Attempt: 1,
		},
		config: config, agent: *agent, role: *config.Role(agent.Roles[0]),
	}
	if t := config.Thread(agent.Thread); t != nil {
		x.thread = *t
	}
	x.role.Command, x.role.Cwd, x.role.Timeout = k.saver, "", saveTime
	job, err := k.sessions.job(x)
	if err != nil {
		return "", err
	}
	out := k.executor.Run(ctx, job, func(agents.Started) {})
	forget(k.executor, job.RunID)
	if out.Result != agents.Done {
		return "", errors.New(out.Reason)
	}
	return out.Reason, nil
}

// runs reports whether a session is under way.
func (st *state) runs(run string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sessions[run] != nil
}

// use is what an agent's workspace is good for.
type use int

const (
	inUse use = iota // a session works on the chain, or the agent's thread is parked and goes on; also if unknown
	idle             // the chain is open, and nobody works on it now
	over             // the chain is closed, or gone from the forge
)

// lastUse returns what an agent's workspace of a chain is good for, and when it was used last, as far as is known. The
// time is zero if it is not.
func (st *state) lastUse(agent string, chain forge.Ref) (since time.Time, of use) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.lastUseLocked(agent, chain)
}

func (st *state) lastUseLocked(agent string, chain forge.Ref) (since time.Time, of use) {
	repo, known := st.facts.Repo(chain.Repo)
	if !known || repo.AsOf.IsZero() || st.facts.More || st.busy[chain] > 0 {
		return since, inUse
	}
	for _, x := range st.sessions {
		if x.Item.Chain == chain {
			return since, inUse
		}
	}
	since, closed := st.closedLocked(chain)
	for i := range st.ledger.Past {
		p := &st.ledger.Past[i]
		if p.Agent == agent && forge.Ref(p.Chain) == chain && p.End.After(since) {
			since = p.End
		}
	}
	a := st.cfg.Agent(agent)
	switch {
	case closed:
		return since, over
	case a != nil && st.ledger.Thread(a.Thread).ParkedUntil.After(time.Now()):
		return since, inUse
	}
	return since, idle
}

// closedLocked reports whether a chain and its pull requests are closed or gone from the forge, and since when.
func (st *state) closedLocked(chain forge.Ref) (since time.Time, closed bool) {
	if is := st.facts.Issue(chain); is != nil {
		since, closed = is.Ended, is.Closed
	} else if p := st.facts.Pull(chain); p != nil {
		since, closed = p.Ended, p.Closed
	} else {
		closed = true
	}
	for i := range st.facts.Pulls {
		p := &st.facts.Pulls[i]
		closed = closed && (p.Closed || !slices.Contains(p.Closes, chain))
	}
	return since, closed
}

// beginWriteOver marks a chain on which an agent has no more work as being written to, and holds the agent, until
// endWriteOver; if open, also one that is idle. It returns nil if the agent has work on the chain, or works elsewhere.
func (st *state) beginWriteOver(agent string, chain forge.Ref, open bool) *itemWrite {
	st.mu.Lock()
	defer st.mu.Unlock()
	_, of := st.lastUseLocked(agent, chain)
	free := of == over || of == idle && open
	for _, x := range st.sessions {
		free = free && x.Agent != agent // all sessions of an agent share its home
	}
	if !free {
		return nil
	}
	st.saves = agent
	return st.beginWriteLocked(st.relatedLocked(chain))
}

// endWriteOver undoes beginWriteOver.
func (st *state) endWriteOver(g *itemWrite) {
	g.end()
	st.lockToChange()
	defer st.mu.Unlock()
	st.saves = ""
}

// savingLocked returns the histories of agents, with a hold on the agent whose workspace is being saved.
func (st *state) savingLocked(now time.Time) map[string]*threads.AgentHistory {
	if st.saves == "" {
		return st.ledger.Agents
	}
	held := *st.ledger.Agent(st.saves)
	held.Hold(now.Add(saveTime), "one of its workspaces is being saved")
	list := maps.Clone(st.ledger.Agents)
	list[st.saves] = &held
	return list
}

func (c *clearing) set(found control.DiskDocument, unsaved map[string]string, deleted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found.Deleted = c.found.Deleted + deleted
	c.found, c.unsaved = found, unsaved
}

// why returns why the newest pass could not delete a leftover; "" if it did not try.
func (c *clearing) why(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsaved[path]
}

// document returns the result of the newest pass.
func (c *clearing) document() control.DiskDocument {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found
}

// lines returns the problems as text.
func (c *clearing) lines() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, why := range c.unsaved {
		list = append(list, why)
	}
	slices.Sort(list)
	if n := len(list); n > 1 {
		list = []string{fmt.Sprintf("%s (and %d more)", list[0], n-1)}
	}
	return list
}

// deleteOver deletes the saved conversations of chains that are closed, as far as is known.
func (k *cleaner) deleteOver(config *threads.Config) {
	k.inference.deleteSaved(config, func(agent string, chain forge.Ref) bool {
		_, of := k.state.lastUse(agent, chain)
		return of == over
	})
}
