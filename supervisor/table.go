package supervisor

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// session is one run of an agent's program on one item, from its reservation until its claim is released.
type session struct {
	threads.Session // the mutex of the state guards State and Started

	// The configuration at the start. A reload does not change it.
	config   *threads.Config
	agent    agents.Agent
	role     agents.Role
	thread   threads.Thread
	over     threads.Key // the item that this start passed over
	ready    time.Time   // when the item became ready
	skills   []string
	labels   []string
	pinned   bool     // the issue was assigned to the agent before the start
	secrets  []string // redacted from its output
	tag      string   // begins its log lines
	reserved time.Time

	ctx     context.Context // done when the session must end; the cause says why
	cancel  context.CancelCauseFunc
	atWork  chan struct{} // closed when the program runs
	gone    chan struct{} // closed when no process is left and nothing more is written
	write   *itemWrite    // the newest write to the item; owned by the session's goroutine
	saving  *saving       // nil if the conversation is not saved; set under the mutex of the state
	adopted bool          // an earlier supervisor started it
	commit  string        // the claim's commit; empty if the forge has none. Owned by the session's goroutine
	remains *remains      // nil until the program has ended; owned by the session's goroutine

	// The mutex of the state guards the following fields.
	pid     int
	place   string // where the program runs; empty on this machine
	sandbox string // describes the sandbox; empty without one
	now     agents.Doing
	heard   []time.Time // when it heard each of its messages
	sent    bool        // its executor has the session, or may have it
	served  bool        // the program may use the thread's inference server
	shares  bool        // another session has used the same server meanwhile
	placed  bool        // the conversation is being restored into slot, or was
	slot    int
	holds   *agents.ServerSlot // had the conversation just before the session or its server was ended; nil: unknown
	first   agents.Usage       // usage of the first answer
	talk    int64              // tokens of the last request and its answer
	// written is the usage that was last journalled, at writtenAt.
	written   agents.Usage
	writtenAt time.Time
}

// stopped is the cause of a session's context if reconcile or a person ended the session.
type stopped struct {
	code threads.Code
	why  string // the code in words, with its operands
}

func (s stopped) Error() string { return s.why }

func stoppedFor(r threads.Reason) stopped { return stopped{r.Code, r.Text()} }

// stop returns why reconcile or a person ended the session; zero if neither did.
func (x *session) stop() (s stopped) {
	errors.As(context.Cause(x.ctx), &s)
	return s
}

// reserveLocked reserves agent, slot and item for a start.
func (st *state) reserveLocked(start *threads.Start, now time.Time) *session {
	x := &session{
		Session: threads.Session{
			RunID: journal.NewRun(st.instance), Thread: start.Thread, Slot: start.Slot, Agent: start.Agent, Role: start.Role,
			Login: st.cfg.Agent(start.Agent).Login, Item: start.Item,
			State: threads.Reserved, Attempt: start.Attempt, Rung: start.Rung, Started: now,
		},
		config: st.cfg, agent: *st.cfg.Agent(start.Agent), role: *st.cfg.Role(start.Role),
		thread: *st.cfg.Thread(start.Thread), over: start.PassedOver, reserved: now,
		tag: tag(st.cfg, start.Agent, start.Item.Ref), atWork: make(chan struct{}), gone: make(chan struct{}),
	}
	x.secrets = append(st.cfg.Hidden(st.environ), proxyPassword(st.cfg, x.RunID))
	if x.agent.Model == "" && x.agent.BaseURL == "" && st.model != nil {
		x.agent.Model = st.model(&x.thread)
	}
	x.PerSession, x.PerIssue = x.role.PerSession, x.role.PerIssue
	x.ready, x.skills, x.labels = ledger.ReadySince(&st.facts, &x.Item)
	x.pinned = ledger.Pinned(&st.facts, &x.Item, x.Login)
	x.ctx, x.cancel = context.WithCancelCause(st.base)
	st.sessions[x.RunID] = x
	return x
}

// began records that a session's program runs.
func (st *state) began(x *session, program agents.Started) {
	st.lockToChange()
	defer st.mu.Unlock()
	x.pid, x.place, x.Started, x.sandbox = program.PID, program.Place, program.At, program.Sandbox
	if x.State == threads.Reserved {
		x.State = threads.Running
	}
}

// reviewed records the newest review that a pull request had before a session.
func (st *state) reviewed(x *session, newest int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	x.Item.Reviewed = newest
}

// drop frees the slot and the agent of a session.
func (st *state) drop(x *session) {
	st.lockToChange()
	defer st.mu.Unlock()
	delete(st.sessions, x.RunID)
}

// endAll ends every session, but leaves sessions elsewhere that outlive the supervisor. It returns the count of each.
func (st *state) endAll(why error) (ending, staying int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, x := range st.sessions {
		if x.detaches() {
			x.cancel(agents.ErrDetached)
			staying++
		} else {
			x.cancel(why)
		}
	}
	return len(st.sessions) - staying, staying
}

// end ends the sessions on some items, and returns them. It does not wait for them.
func (st *state) end(items []forge.Ref, why threads.Code) []*session {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.endLocked(items, why)
}

func (st *state) endLocked(items []forge.Ref, why threads.Code) []*session {
	var list []*session
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		x := st.sessions[run]
		if !x.claims() || !slices.Contains(items, x.Item.Ref) {
			continue
		}
		if x.State != threads.Stopping {
			st.changedLocked()
			x.State = threads.Stopping
			reason := threads.Reason{Code: why}
			if st.cfg != nil && st.cfg.Agent(x.Agent) == nil {
				reason.Agent = x.Agent
			}
			x.cancel(stoppedFor(reason))
		}
		list = append(list, x)
	}
	return list
}

// stopLocked ends the sessions that a plan stops. The scheduler names no session that is ending already.
func (st *state) stopLocked(stops []threads.Stop) []*session {
	var list []*session
	for _, stop := range stops {
		if x := st.sessions[stop.RunID]; x != nil {
			st.changedLocked()
			x.State = threads.Stopping
			x.cancel(stoppedFor(stop.Reason))
			list = append(list, x)
		}
	}
	return list
}

// sessionOn returns a session on any of some items; nil if there is none.
func (st *state) sessionOn(items ...forge.Ref) *session {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sessionOnLocked(items...)
}

func (st *state) sessionOnLocked(items ...forge.Ref) (first *session) {
	for run, x := range st.sessions {
		if slices.Contains(items, x.Item.Ref) && (first == nil || run < first.RunID) {
			first = x
		}
	}
	return first
}

// show returns a session's document.
func (st *state) show(x *session) control.SessionDocument {
	st.mu.Lock()
	defer st.mu.Unlock()
	return x.document()
}

// showAll returns the documents of all sessions, the oldest first.
func (st *state) showAll() []control.SessionDocument {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.showAllLocked()
}

func (st *state) showAllLocked() []control.SessionDocument {
	list, usual := []control.SessionDocument{}, st.ledger.Usuals()
	for _, x := range st.sessions {
		d := x.document()
		d.UsualSeconds = int64(usual.Of(x.Agent, x.Item.Kind) / time.Second)
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b control.SessionDocument) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.RunID, b.RunID))
	})
	return list
}

// document needs the mutex of the state.
func (x *session) document() control.SessionDocument {
	return control.SessionDocument{
		RunID: x.RunID, Thread: x.Thread, Slot: x.Slot, Agent: x.Agent, Role: x.Role, Kind: x.Item.Kind,
		Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Title: x.Item.Title, State: x.State, PID: x.pid, Place: x.place,
		Attempt: x.Attempt, StartedAt: x.Started, Sandbox: x.sandbox, Usage: x.Used, Doing: x.now,
	}
}

// running reports whether a session holds its slot.
func (st *state) running(runID string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sessions[runID] != nil
}

// others returns the sessions that started under another configuration than cfg.
func (st *state) others(cfg *threads.Config) []*session {
	st.mu.Lock()
	defer st.mu.Unlock()
	var list []*session
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		if x := st.sessions[run]; x.config != cfg {
			list = append(list, x)
		}
	}
	return list
}

// secretsOf returns what may not be shown or posted under a configuration and those of running sessions: after a reload
// a session may still print an old token. With runs, the passwords of these sessions' proxies are among it, which only
// their own logs may have.
func (st *state) secretsOf(config *threads.Config, runs ...string) []string {
	list := config.Hidden(st.environ)
	known := make(map[*threads.Config]bool) // its sessions have the same secrets: 1,000 of each of 1,000 agents once
	for _, x := range st.others(config) {
		if !known[x.config] {
			list = append(list, x.secrets...)
		}
		known[x.config] = true
	}
	for _, run := range runs {
		list = append(list, st.proxyPasswordOf(run, config))
	}
	return list
}

// proxyPasswordOf returns the password of the proxy of a session, which may have ended.
func (st *state) proxyPasswordOf(run string, config *threads.Config) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if x := st.sessions[run]; x != nil {
		config = x.config
	}
	return proxyPassword(config, run)
}

// proxyPassword returns the password of the proxy that a session with egress has. Every supervisor with the same token
// computes the same, so that the logs of earlier sessions are shown without it. It is empty without a token.
func proxyPassword(config *threads.Config, run string) string {
	key := config.Forge.Token.Reveal()
	if key == "" {
		return ""
	}
	sum := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(sum, "the proxy of "+run)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// claims reports whether the session's item is claimed on the forge. Scheduled work belongs to no issue.
func (x *session) claims() bool { return x.Item.Kind != agents.KindSchedule }

// works reports whether the session's program has started.
func (x *session) works() bool {
	select {
	case <-x.atWork:
		return true
	default:
		return false
	}
}

// detaches reports whether the session continues when this supervisor stops. It needs the mutex of the state.
func (x *session) detaches() bool { return x.thread.Executor != "" && x.sent && !x.thread.StopEnds }

// redacted returns an outcome without the secrets that the program printed.
func (x *session) redacted(out agents.Outcome) agents.Outcome {
	for _, text := range []*string{&out.Reason, &out.Words, &out.Tail} {
		*text = agents.Redact(*text, x.secrets)
	}
	out.Seen = out.Seen.Redact(x.secrets)
	if out.Verified != nil {
		v := *out.Verified
		v.Words = agents.Redact(v.Words, x.secrets)
		out.Verified = &v
	}
	out.Steps = slices.Clone(out.Steps)
	for i := range out.Steps {
		s := &out.Steps[i]
		s.Command, s.Why = agents.Redact(s.Command, x.secrets), agents.Redact(s.Why, x.secrets)
	}
	if out.Resumed != nil {
		r := *out.Resumed
		r.Changed = agents.Redact(r.Changed, x.secrets)
		out.Resumed = &r
	}
	return out
}

func startOf(x *session) ledger.Record {
	return ledger.Record{At: time.Now(), Start: &ledger.Start{
		Run: x.RunID, Thread: x.Thread, Slot: x.Slot, Sticky: !x.thread.Overlap, Agent: x.Agent, Login: x.agent.Login,
		Role: x.Role, Item: ledger.KeyOf(x.Item.Key()), Chain: ledger.Ref(x.Item.Chain), Cause: x.Item.Cause,
		Attempt: x.Attempt, Rung: x.Rung,
		PassedOver: ledger.KeyOf(x.over), Author: x.Item.Author, Opener: x.Item.Opener,
		Ready: x.ready, Priority: x.Item.Priority, Skills: x.skills, Labels: x.labels,
		Pinned: x.pinned, Model: x.agent.Model, Title: x.Item.Title, Executor: x.thread.Executor,
	}}
}

var errShutdown = errors.New("the supervisor stops")

// remains has the parts of a receipt that are known once the session's program has ended.
type remains struct {
	agents.Outcome
	ran  bool
	pull forge.Ref // the pull request that shows the receipt; zero for none
}

// saving is the state of a session whose conversation is saved at its end. restored is set before the state knows the
// saving, and saved is owned by the session's goroutine.
type saving struct {
	saved.Conversation
	server   saved.Server
	folder   saved.Folder
	since    int64 // the server's newest request when the session started
	told     int64 // tokens of the conversation then, as its last session reported them
	restored int64 // tokens restored from a file
	saved    int64 // tokens saved to a file at the end
}
