package supervisor

import (
	"cmp"
	"context"
	"errors"
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
	threads.Session // State and Started are guarded by the mutex of the books

	// What it was started with. A reload changes none of it.
	config   *threads.Config
	agent    agents.Agent
	role     agents.Role
	thread   threads.Thread
	over     threads.Key // the item that was passed over
	ready    time.Time   // since when the item could be worked on
	skills   []string
	pinned   bool     // the issue is assigned to the agent already
	secrets  []string // redacted from what it prints
	tag      string   // of its log lines
	reserved time.Time

	ctx     context.Context // done when it has to end; the cause says why
	cancel  context.CancelCauseFunc
	atWork  chan struct{} // closed when its program runs
	gone    chan struct{} // closed when nothing of it is left and nothing more is written
	grip    *grip         // the newest on its item; belongs to the session's goroutine
	saving  *saving       // nil where its conversation is not saved; set under the mutex of the books, see saving
	commit  string        // of its claim; empty where that has none. Belongs to the session's goroutine too
	remains *remains      // nil until its program has ended; belongs to the session's goroutine too

	// Guarded by the mutex of the books.
	pid     int
	place   string // where it runs; empty on this machine
	sandbox string // what holds it; empty without one
	sent    bool   // it was given to an executor elsewhere, or may have been
	served  bool   // its program may use its server
	shares  bool   // and another session has, meanwhile
	placed  bool   // its conversation was restored into slot
	slot    int
	holds   *agents.ServerSlot // had its conversation just before it or its server was told to end; nil: not known
	first   agents.Usage       // of its first answer
	talk    int64              // tokens of its last request and the answer
	// written is the use that was last journalled, at writtenAt.
	written   agents.Usage
	writtenAt time.Time
}

// stopped is why a session's context ended: reconcile found that its item went away, or a person said so.
type stopped struct{ reason threads.Reason }

func (s stopped) Error() string { return s.reason.Text() }

// stop is why reconcile or a person ended the session; zero when neither did.
func (x *session) stop() threads.Reason {
	var s stopped
	errors.As(context.Cause(x.ctx), &s)
	return s.reason
}

// reserveLocked takes agent, slot and item for a start.
func (b *books) reserveLocked(start *threads.Start, now time.Time) *session {
	x := &session{
		Session: threads.Session{
			RunID: journal.NewRun(b.instance), Thread: start.Thread, Slot: start.Slot, Agent: start.Agent, Role: start.Role,
			Login: b.cfg.Agent(start.Agent).Login, Item: start.Item,
			State: threads.Reserved, Attempt: start.Attempt, Rung: start.Rung, Started: now,
		},
		config: b.cfg, agent: *b.cfg.Agent(start.Agent), role: *b.cfg.Role(start.Role),
		thread: *b.cfg.Thread(start.Thread), over: start.PassedOver, reserved: now, secrets: secretsOf(b.cfg),
		tag: tag(b.cfg, start.Agent, start.Item.Ref), atWork: make(chan struct{}), gone: make(chan struct{}),
	}
	if x.agent.Model == "" && x.agent.BaseURL == "" && b.model != nil {
		x.agent.Model = b.model(&x.thread)
	}
	x.PerSession, x.PerIssue = x.role.PerSession, x.role.PerIssue
	x.ready, x.skills = ledger.ReadySince(&b.facts, &x.Item)
	x.pinned = ledger.Pinned(&b.facts, &x.Item, x.Login)
	x.ctx, x.cancel = context.WithCancelCause(b.base)
	b.sessions[x.RunID] = x
	return x
}

// began notes that a session's program runs.
func (b *books) began(x *session, program agents.Started) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x.pid, x.place, x.Started, x.sandbox = program.PID, program.Place, program.At, program.Sandbox
	if x.State == threads.Reserved {
		x.State = threads.Running
	}
}

// reviewed notes the newest review that a pull request had before a session.
func (b *books) reviewed(x *session, newest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x.Item.Reviewed = newest
}

// drop frees the slot and the agent of a session.
func (b *books) drop(x *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, x.RunID)
}

// endAll tells every session to end, but leaves those elsewhere that go on without a supervisor. It returns how many
// there are of each.
func (b *books) endAll(why error) (ending, staying int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.sessions {
		if x.detaches() {
			x.cancel(agents.ErrDetached)
			staying++
		} else {
			x.cancel(why)
		}
	}
	return len(b.sessions) - staying, staying
}

// end tells the sessions on some items to end, and returns them.
func (b *books) end(items []forge.Ref, why threads.Code) []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endLocked(items, why)
}

func (b *books) endLocked(items []forge.Ref, why threads.Code) []*session {
	var list []*session
	for _, run := range slices.Sorted(maps.Keys(b.sessions)) {
		x := b.sessions[run]
		if !x.claims() || !slices.Contains(items, x.Item.Ref) {
			continue
		}
		if x.State != threads.Stopping {
			x.State = threads.Stopping
			x.cancel(stopped{threads.Reason{Code: why}})
		}
		list = append(list, x)
	}
	return list
}

// stopLocked tells the sessions to end that a plan ends. The scheduler names none that is ending already.
func (b *books) stopLocked(stops []threads.Stop) []*session {
	var list []*session
	for _, stop := range stops {
		if x := b.sessions[stop.RunID]; x != nil {
			x.State = threads.Stopping
			x.cancel(stopped{stop.Reason})
			list = append(list, x)
		}
	}
	return list
}

// sessionOn returns the session on one of some items; nil when there is none.
func (b *books) sessionOn(items ...forge.Ref) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessionOnLocked(items...)
}

func (b *books) sessionOnLocked(items ...forge.Ref) *session {
	for _, run := range slices.Sorted(maps.Keys(b.sessions)) {
		if slices.Contains(items, b.sessions[run].Item.Ref) {
			return b.sessions[run]
		}
	}
	return nil
}

// hasChainLocked reports whether a session is on an issue or pull request, or on its chain.
func (b *books) hasChainLocked(r forge.Ref) bool {
	for _, x := range b.sessions {
		if x.Item.Ref == r || x.Item.Chain == r {
			return true
		}
	}
	return false
}

// show returns the document of a session.
func (b *books) show(x *session) control.SessionDocument {
	b.mu.Lock()
	defer b.mu.Unlock()
	return x.document()
}

// showAll returns the documents of all sessions, the oldest first.
func (b *books) showAll() []control.SessionDocument {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.showAllLocked()
}

func (b *books) showAllLocked() []control.SessionDocument {
	list := []control.SessionDocument{}
	for _, x := range b.sessions {
		list = append(list, x.document())
	}
	slices.SortFunc(list, func(a, b control.SessionDocument) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.RunID, b.RunID))
	})
	return list
}

// document needs the mutex of the books.
func (x *session) document() control.SessionDocument {
	return control.SessionDocument{
		RunID: x.RunID, Thread: x.Thread, Slot: x.Slot, Agent: x.Agent, Role: x.Role, Kind: x.Item.Kind,
		Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Title: x.Item.Title, State: x.State, PID: x.pid, Place: x.place,
		Attempt: x.Attempt, StartedAt: x.Started, Sandbox: x.sandbox, Usage: x.Used,
	}
}

// running reports whether a session has its slot.
func (b *books) running(runID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[runID] != nil
}

// others returns the sessions that were started under another configuration than cfg.
func (b *books) others(cfg *threads.Config) []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*session
	for _, run := range slices.Sorted(maps.Keys(b.sessions)) {
		if x := b.sessions[run]; x.config != cfg {
			list = append(list, x)
		}
	}
	return list
}

// claims reports whether the session's item is claimed on the forge. Scheduled work belongs to no issue.
func (x *session) claims() bool { return x.Item.Kind != agents.KindSchedule }

// works reports whether the session's program has been started.
func (x *session) works() bool {
	select {
	case <-x.atWork:
		return true
	default:
		return false
	}
}

// detaches needs the mutex of the books.
func (x *session) detaches() bool { return x.sent && !x.thread.StopEnds }

// secretsOf returns every secret of a configuration: they are redacted from what agents printed.
func secretsOf(config *threads.Config) []string {
	list := []string{config.Forge.Token.Reveal(), config.Forge.WebhookSecret.Reveal()}
	for i := range config.Agents {
		list = append(list, config.Agents[i].Token.Reveal())
	}
	for _, v := range config.Secrets {
		list = append(list, v.Value.Reveal())
	}
	return list
}

// redacted is an outcome without the secrets that the program printed.
func (x *session) redacted(out agents.Outcome) agents.Outcome {
	for _, text := range []*string{&out.Reason, &out.Words, &out.Tail} {
		*text = agents.Redact(*text, x.secrets)
	}
	out.Seen = out.Seen.Redact(x.secrets)
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
		PassedOver: ledger.KeyOf(x.over), Author: x.Item.Author, Ready: x.ready, Priority: x.Item.Priority, Skills: x.skills,
		Pinned: x.pinned, Model: x.agent.Model, Executor: x.thread.Executor,
	}}
}

var errShutdown = errors.New("the supervisor stops")

// remains hold what a session's program left for its receipt.
type remains struct {
	agents.Outcome
	ran  bool
	pull forge.Ref // that shows the receipt; zero for none
}

// saving is a session whose conversation is saved at its end. restored is set before the books know it, and saved
// belongs to the session's goroutine.
type saving struct {
	saved.Conversation
	server   saved.Server
	folder   saved.Folder
	since    int64 // the server's newest request when the session began
	told     int64 // tokens of the conversation then, as its last session told them
	restored int64 // tokens that came from a file
	saved    int64 // tokens that a file got at the end
}
