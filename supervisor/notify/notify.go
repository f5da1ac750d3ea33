// Package notify sends people the messages that need them: to a phone, a chat room or a mailbox.
//
// Messages follow from the status (causes.go), apart from merges: each version of the status is a list of causes.
// told.go records which causes were sent, and when one that came back may be sent again; a file in the state
// directory keeps that over restarts. Each recipient has a queue (queue.go), which combines messages that come too
// fast into a digest and retries letters, and a goroutine that sends them (send.go). The supervisor never waits for
// any of these.
//
// To add a kind of recipient, write its function and its row in senders, and its row in recipients of threads/file.
package notify

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const (
	// sendTime bounds the time to send one letter.
	sendTime = 15 * time.Second
	// panicRest is the pause after a panic.
	panicRest = 30 * time.Second
	// cannotSend starts each line of Problems.
	cannotSend = "cannot send messages to "
)

// Notifier sends messages for one factory. Set the exported fields before the first call, and do not change them
// after it. Its methods may be called from any goroutine.
type Notifier struct {
	Config   func() *threads.Config // the current one; nil if none is valid
	StateDir string
	Log      hclog.Logger
	// Deliver sends a letter. Its error must not contain secrets. Nil means Send.
	Deliver func(context.Context, threads.Recipient, Letter) error

	once   sync.Once
	wake   chan struct{} // a message may be due
	memory memory

	mu     sync.Mutex // guards the fields below
	told   told
	merges []Message // to be sent
	posts  []*post   // in the order of the urls
}

// post is a recipient with its queue and goroutine.
type post struct {
	to    threads.Recipient // guarded by the notifier's mutex, like the queue
	queue queue
	wake  chan struct{}
	end   context.CancelFunc
}

func (n *Notifier) init() {
	n.once.Do(func() {
		n.wake = make(chan struct{}, 1)
		if n.Deliver == nil {
			n.Deliver = Send
		}
		n.memory.dir = n.StateDir
		n.told.restore(n.memory.read())
	})
}

// wanted returns the current [notify] table; nil without one.
func (n *Notifier) wanted() *threads.Notify {
	if c := n.Config(); c != nil && len(c.Notify.To) > 0 {
		return &c.Notify
	}
	return nil
}

// Saw records a new version of the status.
func (n *Notifier) Saw(d *control.Document) {
	wanted := n.wanted()
	if wanted == nil && !n.posting() {
		return
	}
	n.init()
	if wanted != nil {
		list := slices.DeleteFunc(Causes(d), func(m Message) bool { return !wanted.Has(m.Topic) })
		n.mu.Lock()
		n.told.see(time.Now(), list, d.Forge.OK)
		n.mu.Unlock()
	}
	ring(n.wake)
}

func (n *Notifier) posting() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.posts) > 0
}

// Merged records a pull request that the supervisor merged.
func (n *Notifier) Merged(ref forge.Ref, title string) {
	wanted := n.wanted()
	if wanted == nil || !wanted.Has(threads.NotifyMerged) {
		return
	}
	n.init()
	m := Message{
		Key: "merged " + ref.String(), Topic: threads.NotifyMerged, Words: ref.String() + " " + Clean(title, maxTitle),
		Link: issuePage(n.Config().Forge.URL, ref.Repo, ref.Number), At: time.Now(),
	}
	n.mu.Lock()
	if n.merges = append(n.merges, m); len(n.merges) > maxQueue {
		n.merges = n.merges[1:]
	}
	n.mu.Unlock()
	ring(n.wake)
}

// Problems returns a line for each recipient whose last letter failed.
func (n *Notifier) Problems() (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.posts {
		if q := &p.queue; q.why != "" {
			lines = append(lines, fmt.Sprintf("%s%s: %s; tries %d, waiting %d, dropped %d; `disinto check --notify` tries it",
				cannotSend, &p.to, q.why, q.failed, len(q.waiting), q.dropped))
		}
	}
	return lines
}

// Run sends messages until ctx is done.
func (n *Notifier) Run(ctx context.Context) {
	n.init()
	for !n.safely("the messages to people", func() { n.run(ctx) }) {
		sleep(ctx, panicRest)
	}
}

func (n *Notifier) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, lines := n.pass(ctx, time.Now())
		n.memory.write(lines)
		wait(ctx, n.wake, next)
	}
}

// pass queues the messages that are due for every recipient. next is when more may be due; lines are for the file.
func (n *Notifier) pass(ctx context.Context, now time.Time) (next time.Time, lines []line) {
	wanted := n.wanted()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connectLocked(ctx, wanted)
	if wanted == nil {
		n.merges = nil
		return next, nil
	}
	list, next := n.told.due(now)
	list = slices.DeleteFunc(list, func(m Message) bool { return !wanted.Has(m.Topic) })
	list = append(list, n.merges...)
	n.merges = nil
	if len(list) > 0 {
		for _, p := range n.posts {
			p.queue.add(list)
			ring(p.wake)
		}
	}
	return next, n.told.lines()
}

// connectLocked starts a goroutine for each new recipient, and ends those of removed ones.
func (n *Notifier) connectLocked(ctx context.Context, wanted *threads.Notify) {
	var to []threads.Recipient
	if wanted != nil {
		to = wanted.To
	}
	old, gone := n.posts, false
	n.posts = nil
	for _, r := range to {
		same := func(p *post) bool { return p.to.URL == r.URL }
		if i := slices.IndexFunc(old, same); i >= 0 {
			old[i].to = r // its number may have changed
			n.posts = append(n.posts, old[i])
			continue
		}
		postCtx, end := context.WithCancel(ctx)
		p := &post{to: r, wake: make(chan struct{}, 1), end: end}
		n.posts = append(n.posts, p)
		go n.safely("the goroutine of "+r.String(), func() { n.keep(postCtx, p) })
	}
	for _, p := range old {
		if !slices.Contains(n.posts, p) {
			p.end()
			gone = true
		}
	}
	if gone {
		n.told.forgetUnsent()
	}
}

// keep sends a recipient's queue until ctx is done.
func (n *Notifier) keep(ctx context.Context, p *post) {
	for ctx.Err() == nil {
		var at time.Time
		if n.safely("sending a message", func() { at = n.send(ctx, p) }) {
			wait(ctx, p.wake, at)
		} else {
			sleep(ctx, panicRest)
		}
	}
}

// send sends a recipient's letters that are due. at is when the next may be due.
func (n *Notifier) send(ctx context.Context, p *post) (at time.Time) {
	for ctx.Err() == nil {
		now := time.Now()
		n.mu.Lock()
		batch, at := p.queue.next(now)
		to, dropped := p.to, p.queue.dropped
		n.mu.Unlock()
		if batch == nil {
			return at
		}
		tryCtx, cancel := context.WithTimeout(ctx, sendTime)
		err := n.Deliver(tryCtx, to, write(now, batch, dropped))
		cancel()
		if ctx.Err() == nil {
			n.tried(p, &to, batch, dropped, n.why(err))
		}
	}
	return at
}

// tried records the result of a letter.
func (n *Notifier) tried(p *post, to *threads.Recipient, batch []Message, dropped int, why string) {
	n.mu.Lock()
	was := p.queue.why
	p.queue.tried(time.Now(), batch, dropped, why)
	if why == "" {
		n.told.arrived(batch)
	}
	n.mu.Unlock()
	switch {
	case why != "" && was == "":
		n.Log.Warn(cannotSend + to.String() + ": " + why)
	case why == "" && was != "":
		n.Log.Info("messages to " + to.String() + " arrive again")
	}
	ring(n.wake) // to write the file
}

// why returns an error in one line, without the configuration's secrets.
func (n *Notifier) why(err error) string {
	if err == nil {
		return ""
	}
	var secrets []string
	if c := n.Config(); c != nil {
		for _, s := range c.Secrets {
			secrets = append(secrets, s.Value.Reveal())
		}
	}
	return Clean(agents.Redact(err.Error(), secrets), maxWhy)
}

// safely runs f and recovers from a panic, which would end PID 1. It reports whether f returned normally.
func (n *Notifier) safely(what string, f func()) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			n.Log.Error(fmt.Sprintf("internal error: %s panicked: %v\n%s", what, v, debug.Stack()))
		}
	}()
	f()
	return true
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when c rings, when at has come unless that is zero, or when ctx is done.
func wait(ctx context.Context, c <-chan struct{}, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
	case <-c:
	case <-due:
	}
}

func sleep(ctx context.Context, d time.Duration) { wait(ctx, nil, time.Now().Add(d)) }
