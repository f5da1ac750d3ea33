// Package notify sends people the messages that need them: to a phone, a chat room or a mailbox.
//
// Messages follow from the status (causes.go), apart from merges: each version of the status is a list of causes.
// causelog.go records which causes were sent, and when one that came back may be sent again; a file in the state
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

	once sync.Once
	wake chan struct{} // a message may be due
	file sentFile

	mu        sync.Mutex // guards the fields below
	causes    causeLog
	merges    []Message  // to be sent
	mailboxes []*mailbox // in the order of the urls
}

// mailbox is a recipient with its queue and goroutine.
type mailbox struct {
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
		n.file.dir = n.StateDir
		n.causes.restore(n.file.read())
	})
}

// table returns the current [notify] table; nil without one.
func (n *Notifier) table() *threads.Notify {
	if c := n.Config(); c != nil && len(c.Notify.To) > 0 {
		return &c.Notify
	}
	return nil
}

// RecordStatus records a new version of the status.
func (n *Notifier) RecordStatus(d *control.Document) {
	wanted := n.table()
	if wanted == nil && !n.hasMailboxes() {
		return
	}
	n.init()
	if wanted != nil {
		list := slices.DeleteFunc(Causes(d), func(m Message) bool { return !wanted.Has(m.Topic) })
		n.mu.Lock()
		n.causes.record(time.Now(), list, d.Forge.OK)
		n.mu.Unlock()
	}
	wakeUp(n.wake)
}

func (n *Notifier) hasMailboxes() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.mailboxes) > 0
}

// RecordMerge records a pull request that the supervisor merged.
func (n *Notifier) RecordMerge(ref forge.Ref, title string) {
	wanted := n.table()
	if wanted == nil || !wanted.Has(threads.NotifyMerged) {
		return
	}
	n.init()
	m := Message{
		Key: "merged " + ref.String(), Topic: threads.NotifyMerged, Words: ref.String() + " " + Clean(title, maxTitle),
		Link: control.ItemPage(n.Config().Forge.URL, ref.Repo, ref.Number), At: time.Now(),
	}
	n.mu.Lock()
	if n.merges = append(n.merges, m); len(n.merges) > maxQueue {
		n.merges = n.merges[1:]
	}
	n.mu.Unlock()
	wakeUp(n.wake)
}

// Problems returns a line for each recipient whose last letter failed.
func (n *Notifier) Problems() (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.mailboxes {
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
		next, lines := n.queueDue(ctx, time.Now())
		n.file.write(lines)
		wait(ctx, n.wake, next)
	}
}

// queueDue queues the messages that are due for every recipient. next is when more may be due; lines are for the file.
func (n *Notifier) queueDue(ctx context.Context, now time.Time) (next time.Time, lines []line) {
	wanted := n.table()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connectLocked(ctx, wanted)
	if wanted == nil {
		n.merges = nil
		return next, nil
	}
	list, next := n.causes.due(now)
	list = slices.DeleteFunc(list, func(m Message) bool { return !wanted.Has(m.Topic) })
	list = append(list, n.merges...)
	n.merges = nil
	if len(list) > 0 {
		for _, p := range n.mailboxes {
			p.queue.add(list)
			wakeUp(p.wake)
		}
	}
	return next, n.causes.lines()
}

// connectLocked starts a goroutine for each new recipient, and ends those of removed ones.
func (n *Notifier) connectLocked(ctx context.Context, wanted *threads.Notify) {
	var to []threads.Recipient
	if wanted != nil {
		to = wanted.To
	}
	old, gone := n.mailboxes, false
	n.mailboxes = nil
	for _, r := range to {
		same := func(p *mailbox) bool { return p.to.URL == r.URL }
		if i := slices.IndexFunc(old, same); i >= 0 {
			old[i].to = r // its number may have changed
			n.mailboxes = append(n.mailboxes, old[i])
			continue
		}
		postCtx, end := context.WithCancel(ctx)
		p := &mailbox{to: r, wake: make(chan struct{}, 1), end: end}
		n.mailboxes = append(n.mailboxes, p)
		go n.safely("the goroutine of "+r.String(), func() { n.sendQueue(postCtx, p) })
	}
	for _, p := range old {
		if !slices.Contains(n.mailboxes, p) {
			p.end()
			gone = true
		}
	}
	if gone {
		n.causes.forgetUnsent()
	}
}

// sendQueue sends a recipient's queue until ctx is done.
func (n *Notifier) sendQueue(ctx context.Context, p *mailbox) {
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
func (n *Notifier) send(ctx context.Context, p *mailbox) (at time.Time) {
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
			n.recordResult(p, &to, batch, dropped, n.why(err))
		}
	}
	return at
}

// recordResult records the result of a letter.
func (n *Notifier) recordResult(p *mailbox, to *threads.Recipient, batch []Message, dropped int, why string) {
	n.mu.Lock()
	was := p.queue.why
	p.queue.recordResult(time.Now(), batch, dropped, why)
	if why == "" {
		n.causes.recordSent(batch)
	}
	n.mu.Unlock()
	switch {
	case why != "" && was == "":
		n.Log.Warn(cannotSend + to.String() + ": " + why)
	case why == "" && was != "":
		n.Log.Info("messages to " + to.String() + " arrive again")
	}
	wakeUp(n.wake) // to write the file
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

func wakeUp(c chan struct{}) {
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
