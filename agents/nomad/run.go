package nomad

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Executor runs sessions as jobs of a Nomad cluster. Set the exported fields before the first call, and do not change
// them afterwards. It is safe for concurrent use.
type Executor struct {
	// Config returns the cluster. It is called for each request, so that a reloaded configuration takes effect.
	Config func() Config
	// Self is the path by which jobs name this program. The program's path on a node may differ.
	Self string
	// Secrets returns the texts to remove from outcomes. It is called at the end of each session. nil means none.
	Secrets func() []string
	// Forget removes the fence ref that a session without a claim has left on the forge. nil means that there is none.
	Forget func(ctx context.Context, repo, run string) error
	// Folder reads the folder of files that a command names and its node does not have. nil, or a nil result, means
	// that the command names none.
	Folder func(command []string) (*Folder, error)
	// Report receives internal errors; nil discards them.
	Report func(err error)

	patience time.Duration // waiting time for a node that takes a job; 0 means placeTime
	detour   time.Duration // waiting time until a server has a connection to a node; 0 means documentTime
	silence  time.Duration // see silence; 0 means silence plus the time that Nomad needs to kill

	mu        sync.Mutex // guards the fields below
	client    *client
	sessions  map[string]*session // by job id
	stopWatch func()              // ends the watch; nil while none runs
	trials    map[string]*trial   // by trialKey
}

func (e *Executor) report(err error) {
	if e.Report != nil {
		e.Report(err)
	}
}

// session is the supervisor's side of a run.
type session struct {
	exec   *Executor
	client *client
	id     string // job id
	order  *Order
	spent  func(agents.Usage)
	doing  func(agents.Doing)
	news   chan struct{} // receives when the job has changed
	// unlisted says that the job disappeared from the list of unstopped jobs.
	unlisted atomic.Bool

	// Owned by the goroutine of Run.
	since         time.Time // time of the submission, or when a kept session was found
	changed       time.Time // when the allocations last changed
	fingerprint   string    // fingerprint of the allocations
	stopRequested bool      // we made Nomad stop the job
	unplaced      string    // why no node takes the job; it is then stopped
	startReported bool      // started was called
	document      *document // last version read
	readAt        time.Time
	unread        time.Time // since when the document of the ended allocation could not be read
	listedAt      time.Time

	quiet chan struct{} // closed when the session prints nothing more

	mu       sync.Mutex // guards the fields below
	activity agents.Activity
	alloc    string // id of the session's allocation; empty while there is none
	logBound int64
}

// Run implements supervisor.Executor: it submits a job and returns when no process of the session is left on any node.
func (e *Executor) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if job.RunID == "" || strings.ContainsAny(job.RunID, "/\x00 ") {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: a job without a usable run id"}
	}
	s := &session{
		exec: e, id: jobID(job.RunID), spent: job.Spent, doing: job.Doing, news: make(chan struct{}, 1),
		since: time.Now(), changed: time.Now(), quiet: make(chan struct{}),
	}
	if !e.addSession(s) {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: the run " + job.RunID + " is running already"}
	}
	defer e.removeSession(s)
	// Requests outlive ctx: a cancelled session must be ended, and its end awaited.
	calls, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() {
		e.safely("the end of "+s.id, func() {
			if detached(ctx) {
				abandon()
			}
		})
	})()
	var refused *agents.Outcome
	if len(job.Command) == 0 {
		refused = s.findOrder(calls, job)
	} else {
		refused = s.submit(ctx, calls, job)
	}
	if refused != nil {
		return *refused
	}
	return s.follow(ctx, calls, started)
}

// detached reports whether the session continues without the supervisor.
func detached(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), agents.ErrDetached)
}

// cancelled returns the outcome of a session that ctx ended.
func cancelled(ctx context.Context) agents.Outcome {
	return agents.Outcome{Result: agents.Cancelled, Reason: context.Cause(ctx).Error()}
}

// findOrder finds a session that outlived the last supervisor.
func (s *session) findOrder(calls context.Context, job agents.Job) *agents.Outcome {
	err := persist(calls, func() (err error) {
		if s.client, err = s.exec.locate(calls, s.id); err != nil {
			return err
		}
		s.order, err = s.client.getOrder(calls, s.id)
		if err == nil && s.order == nil { // its end was already reported
			s.order, err = s.client.rebuildOrder(calls, s.id)
		}
		return err
	})
	switch {
	case err != nil:
		return &agents.Outcome{Result: agents.Lost, Reason: oneLine(err.Error())}
	case s.order == nil:
		return &agents.Outcome{Result: agents.Lost, Reason: "Nomad has no job " + s.id}
	}
	return nil
}

// rebuildOrder reconstructs the order of a job that has none, as far as the job allows; nil if the job does not exist.
func (c *client) rebuildOrder(ctx context.Context, id string) (*Order, error) {
	var job struct{ Meta map[string]string }
	_, err := c.call(ctx, http.MethodGet, "/job/"+escape(id), nil, nil, &job)
	if isMissing(err) {
		return nil, nil
	}
	deadline, _ := time.Parse(time.RFC3339, job.Meta[deadlineKey])
	return &Order{Job: agents.Job{RunID: strings.TrimPrefix(id, jobPrefix)}, Deadline: deadline}, err
}

// submit stores the order and registers the job. A non-nil outcome means that nothing was started and nothing will
// be.
func (s *session) submit(ctx, calls context.Context, job agents.Job) *agents.Outcome {
	s.order, s.client = newOrder(job, s.exec.Self, s.since), s.client.in(job.Target.Namespace)
	if s.exec.Folder != nil {
		folder, err := s.exec.Folder(job.Command)
		if err != nil {
			return &agents.Outcome{Result: agents.NoPlace, Reason: oneLine(err.Error())}
		}
		s.order.addFolder(folder)
	}
	if err := exposed(&job); err != nil {
		return &agents.Outcome{Result: agents.NoPlace, Reason: oneLine(err.Error())}
	}
	patience, end := context.WithTimeout(ctx, placeTime)
	defer end()
	cfg := s.client.config()
	err := persist(patience, func() (err error) {
		if cfg.Volume != "" {
			s.order.Paths, err = s.client.volumePaths(patience, cfg.Volume)
		}
		if err == nil {
			err = s.client.putOrder(patience, s.id, s.order)
		}
		if errors.Is(err, errTooLong) {
			err = &refusal{http.StatusRequestEntityTooLarge, err.Error()}
		}
		return err
	})
	if err == nil && ctx.Err() == nil {
		// From this point the job may exist. Only an answer from Nomad decides.
		err = persist(calls, func() error { return s.client.register(calls, describe(s.id, s.order, cfg)) })
		if err == nil || detached(ctx) {
			return nil
		}
	}
	_ = s.client.dropOrder(calls, s.id)
	if ctx.Err() != nil {
		o := cancelled(ctx)
		return &o
	}
	if s.exec.Reach(calls) != nil { // no agent is to blame for Nomad's outage
		return &agents.Outcome{Result: agents.Lost, Reason: oneLine(err.Error())}
	}
	return &agents.Outcome{Result: agents.NoPlace, Reason: oneLine(err.Error())}
}

// How often a session checks its job without a change being reported.
const (
	startTick = 200 * time.Millisecond // between the start of session-run and the program's
	quietTick = time.Second            // while a job is pending or ending
	usageTick = 5 * time.Second        // for the usage
	listTick  = 30 * time.Second       // for changes that the watch missed
)

// follow waits for the end of a session.
func (s *session) follow(ctx, calls context.Context, started func(agents.Started)) agents.Outcome {
	defer close(s.quiet)
	s.mu.Lock()
	s.logBound = s.order.Job.MaxLog
	s.mu.Unlock()
	var allocs []allocation
	done, tick := ctx.Done(), time.Duration(0)
	for {
		select {
		case <-s.news:
			s.listedAt = time.Time{}
		case <-time.After(tick):
		case <-done:
			done = nil
		}
		if detached(ctx) {
			return s.leave(ctx)
		}
		var err error
		if now := time.Now(); s.ending(allocs) || now.Sub(s.listedAt) >= listTick || !s.startReported {
			var list []allocation
			if list, err = s.client.allocations(calls, s.id); err == nil && len(list) == 0 {
				list = purged(allocs)
			}
			if err == nil {
				allocs, s.listedAt = list, now
			}
		}
		if tick = quietTick; err == nil {
			if out, over := s.step(ctx, calls, allocs, started); over {
				return s.cleanUp(ctx, calls, out)
			}
			tick = s.pollInterval(allocs)
		}
	}
}

// ending reports whether a session is about to start or end. The watch does not report changes of stopped jobs.
func (s *session) ending(allocs []allocation) bool {
	a := mainAllocation(allocs)
	return s.stopRequested || a == nil || s.unlisted.Load() || a.ClientStatus == statusGone
}

// pollInterval is the time until the next check.
func (s *session) pollInterval(allocs []allocation) time.Duration {
	a := mainAllocation(allocs)
	switch {
	case a != nil && a.ClientStatus == "running" && !s.startReported:
		return startTick
	case s.ending(allocs) || a.ClientStatus != "running":
		return quietTick
	}
	return usageTick
}

// allocations returns the allocations of a job.
func (c *client) allocations(ctx context.Context, id string) (list []allocation, err error) {
	query := url.Values{"all": {"true"}}
	_, err = c.call(ctx, http.MethodGet, "/job/"+escape(id)+"/allocations", query, nil, &list)
	return list, err
}

// purged returns the last known allocations of a removed job. Nomad forgets them, while their nodes are still ending
// them. An unreachable node does not end them.
func purged(before []allocation) (list []allocation) {
	for _, a := range before {
		if a.live() && a.ClientStatus != "unknown" {
			a.ClientStatus = statusGone
		}
		list = append(list, a)
	}
	return list
}

// step acts on the state of a session. ended is true when no process of it runs or can still start.
func (s *session) step(
	ctx, calls context.Context, allocs []allocation, started func(agents.Started),
) (out agents.Outcome, ended bool) {
	now := time.Now()
	s.recordChange(allocs, now)
	a := mainAllocation(allocs)
	if a != nil {
		s.observe(calls, a, started)
	}
	if why, stop := s.mustStop(ctx, calls, allocs, now); stop && !s.stopRequested {
		s.unplaced = why
		s.stopRequested = s.client.stop(calls, s.id) == nil
		s.changed = now
	}
	switch {
	case a == nil && s.stopRequested && now.Sub(s.changed) >= quietTick: // no evaluation is pending
		return agents.Outcome{Result: agents.NoPlace, Reason: s.unplaced}, true
	case a == nil && s.vanished(calls):
		return agents.Outcome{Result: agents.Lost, Reason: "its job was removed from Nomad"}, true
	case a == nil:
		return out, false
	case now.Before(s.order.Deadline.Add(time.Minute)) && !s.ended(allocs, now):
		return out, false
	}
	s.observe(calls, a, started)
	out = judge(a, s.document, s.stopRequested && s.unplaced == "" && ctx.Err() != nil, &s.order.Job)
	if s.unplaced != "" && !s.startReported {
		out = agents.Outcome{Result: agents.NoPlace, Reason: s.unplaced}
	}
	return out, true
}

// ended reports whether no process of the session runs or can still start.
func (s *session) ended(allocs []allocation, now time.Time) bool {
	return allEnded(allocs, now.Sub(s.changed), cmp.Or(s.exec.silence, s.order.Job.Grace+killSlack+silence))
}

// recordChange records when the allocations last changed.
func (s *session) recordChange(allocs []allocation, now time.Time) {
	var b strings.Builder
	for i := range allocs {
		b.WriteString(allocs[i].ID + allocs[i].ClientStatus)
	}
	if print := b.String(); print != s.fingerprint && print != "" {
		s.fingerprint, s.changed = print, now
	}
}

// vanished reports whether a job that no node took has disappeared.
func (s *session) vanished(calls context.Context) bool {
	left, err := s.client.rebuildOrder(calls, s.id)
	return err == nil && left == nil
}

// mustStop reports whether the job must be stopped: because ctx was cancelled, but not detached; because the deadline
// has passed; or because no node takes the job, for the reason why. ctx may have ended since the last check.
func (s *session) mustStop(
	ctx, calls context.Context, allocs []allocation, now time.Time,
) (why string, stop bool) {
	a := mainAllocation(allocs)
	switch {
	case ctx.Err() != nil && !detached(ctx), now.After(s.order.Deadline):
		return "", true
	case a == nil && now.Sub(s.since) >= cmp.Or(s.exec.patience, placeTime):
		return s.client.whyUnplaced(calls, s.id), true
	case a != nil && a.ClientStatus == "pending" && now.Sub(s.changed) >= startLimit(&s.order.Job):
		return "node " + oneLine(a.NodeName) + " does not start it: " + a.exit().words, true
	}
	return "", false
}

// observe reads session-run's reports and passes them on.
func (s *session) observe(calls context.Context, a *allocation, started func(agents.Started)) {
	x := a.exit()
	if !x.started {
		return
	}
	s.mu.Lock()
	s.alloc = a.ID
	s.mu.Unlock()
	wait := usageTick
	if !s.startReported {
		wait = startTick
	}
	if now := time.Now(); now.Sub(s.readAt) >= wait || !a.live() {
		s.readAt = now
		s.readDocument(calls, a)
	}
	d := s.document
	known := d != nil && d.Started != nil
	if !known && (d != nil || x.result == "" || slices.Contains([]agents.Result{agents.Lost, agents.NoPlace}, x.result)) {
		return
	}
	// At is the time of the submission, by our own clock. The program started later.
	begin := agents.Started{Place: a.place(), At: s.order.Deadline.Add(-longest(&s.order.Job))}
	if known {
		begin.Sandbox = d.Started.Sandbox
	}
	s.mu.Lock()
	if s.activity.Place = begin.Place; s.activity.LastOutput.IsZero() {
		s.activity.LastOutput = begin.At
	}
	s.mu.Unlock()
	if s.startReported {
		return
	}
	s.startReported = true
	if started != nil {
		started(begin)
	}
}

// cleanTime bounds the cleanup after a session. Unreported finds an incomplete cleanup.
const cleanTime = 20 * time.Second

// cleanUp cleans up after a session. It marks the job as stopped, so that Nomad never starts it again and Unreported
// does not list it. Then it removes the fence, and finally the order: by the order Unreported finds an incomplete
// cleanup. Job and allocation stay until Nomad collects them, because the end of the session may be requested again.
func (s *session) cleanUp(ctx, calls context.Context, out agents.Outcome) agents.Outcome {
	if out.Result == agents.Cancelled && ctx.Err() != nil {
		out.Reason = context.Cause(ctx).Error()
	}
	if d := s.document; d != nil {
		out.Usage = out.Usage.Max(d.Usage)
	}
	if s.exec.Secrets != nil {
		secrets := s.exec.Secrets()
		for _, text := range []*string{&out.Reason, &out.Words, &out.Tail} {
			*text = agents.Redact(*text, secrets)
		}
	}
	calls, cancel := context.WithTimeout(calls, cleanTime)
	defer cancel()
	j := &s.order.Job
	steps := []func() error{
		func() error { return s.client.stop(calls, s.id) },
		func() error {
			if j.Claim != "" || j.Repo == "" || s.exec.Forget == nil {
				return nil
			}
			return s.exec.Forget(calls, j.Repo, j.RunID)
		},
		func() error { return s.client.dropOrder(calls, s.id) },
	}
	for _, step := range steps {
		if err := persist(calls, step); err != nil {
			if !detached(ctx) { // otherwise the next supervisor cleans up
				s.exec.report(err)
			}
			break
		}
	}
	return out
}

// Activity returns the activity of a run whose program is running.
func (e *Executor) Activity(runID string) (a agents.Activity, ok bool) {
	s := e.find(runID)
	if s == nil {
		return a, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activity, s.activity.Place != ""
}

// Unreported returns the runs of an instance whose end has not been reported.
func (e *Executor) Unreported(ctx context.Context, instance string) ([]string, error) {
	return e.api().in(everywhere).unreported(ctx, instance)
}
