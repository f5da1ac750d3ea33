package simtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Repo is the one repository of a simulated forge.
const Repo = "johba/harb"

// Ref names an issue or pull request of Repo.
func Ref(n int64) forge.Ref { return forge.Ref{Repo: Repo, Number: n} }

// Comment is a comment that we wrote.
type Comment struct {
	Ref       forge.Ref
	Key, Body string
	At        time.Time
}

// Forge is a forge in memory. What it does not have in common with a real one is a network: every call takes Latency of
// the bubble's time, half of it before the call takes effect and half after. Its methods may be called by any goroutine.
type Forge struct {
	Latency time.Duration
	Lag     time.Duration // from the moment that a scan shows to its answer
	// Tokens are the logins behind tokens.
	Tokens map[string]string

	mu       sync.Mutex // guards what follows
	fault    Fault
	cold     int         // scans that stop early
	whole    forge.Facts // of the last scan that was answered in full
	issues   map[int64]*forge.Issue
	pulls    map[int64]*forge.Pull
	asked    map[int64]map[string][]time.Time // comments of others, by number and account
	comments []Comment
	writes   []string
	last     int64 // number of an issue or pull request
	heads    int64
	requests int64
	errs     []string
}

// Fault is asked before each call, with its name, such as scan or claim; an error is the call's answer. It may block.
type Fault func(ctx context.Context, call string) error

// Fail sets what goes wrong from now on; nil is nothing.
func (f *Forge) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Cold lets the next n scans stop early: they know the issues and do not know what any of them depends on.
func (f *Forge) Cold(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cold = n
}

// NewForge is an empty forge.
func NewForge() *Forge {
	return &Forge{
		Latency: 40 * time.Millisecond,
		Tokens:  make(map[string]string),
		issues:  make(map[int64]*forge.Issue),
		pulls:   make(map[int64]*forge.Pull),
		asked:   make(map[int64]map[string][]time.Time),
	}
}

// Issue files an issue that is ready to be worked on once its blockers are closed, and returns its number.
func (f *Forge) Issue(title string, blockers ...int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	is := &forge.Issue{
		Ref: Ref(f.last), Title: title, Author: "johba", Labels: []string{forge.LabelBacklog},
		Created: time.Now(), Updated: time.Now(), BlockersKnown: true,
	}
	for _, b := range blockers {
		is.Blockers = append(is.Blockers, forge.Blocker{Ref: Ref(b)})
	}
	f.issues[f.last] = is
	return f.last
}

// Open opens a pull request for an issue as an agent, unless it has one already; then it pushes to that. It returns its
// number.
func (f *Forge) Open(issue int64, login string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, p := range f.pulls {
		if p.Closes[0].Number == issue && !p.Closed {
			f.pushLocked(p)
			return n
		}
	}
	f.last++
	p := &forge.Pull{
		Ref: Ref(f.last), Title: f.issues[issue].Title, Author: login, Head: "fix/issue-" + strconv.FormatInt(issue, 10),
		HeadRepo: Repo, Base: "main", Closes: []forge.Ref{Ref(issue)}, Mergeable: forge.MergeClean, Created: time.Now(),
	}
	f.pushLocked(p)
	f.pulls[f.last] = p
	return f.last
}

// Push moves the head of a pull request.
func (f *Forge) Push(pull int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushLocked(f.pulls[pull])
}

func (f *Forge) pushLocked(p *forge.Pull) {
	f.heads++
	p.HeadSHA, p.Updated = fmt.Sprintf("%07x%033d", f.heads, 0), time.Now()
}

// Review gives a verdict on the head of a pull request.
func (f *Forge) Review(pull int64, login string, v forge.Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pulls[pull]
	p.Updated = time.Now()
	p.Reviews = append(slices.Clone(p.Reviews), forge.Review{
		ID: int64(len(p.Reviews)) + 1, Author: login, Verdict: v, CommitSHA: p.HeadSHA, Official: true, Submitted: time.Now(),
	})
}

// Say comments on an issue or pull request as somebody else than us.
func (f *Forge) Say(n int64, login string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked[n] == nil {
		f.asked[n] = make(map[string][]time.Time)
	}
	f.asked[n][login] = append(f.asked[n][login], time.Now())
}

// Edit changes an issue as a person does.
func (f *Forge) Edit(n int64, change func(*forge.Issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.issues[n]
	is.Labels, is.Assignees = slices.Clone(is.Labels), slices.Clone(is.Assignees)
	change(is)
	is.Updated = time.Now()
}

// EditPull changes a pull request as a person does.
func (f *Forge) EditPull(n int64, change func(*forge.Pull)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pulls[n]
	p.Labels, p.Assignees = slices.Clone(p.Labels), slices.Clone(p.Assignees)
	change(p)
	p.Updated = time.Now()
}

// SendBack takes off everything what agents wrote when they gave up, as a person does who wants it tried again.
func (f *Forge) SendBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, is := range f.issues {
		is.Labels = without(without(is.Labels, forge.LabelBlocked), forge.LabelNeedsHuman)
	}
	for _, p := range f.pulls {
		p.Labels = without(without(p.Labels, forge.LabelBlocked), forge.LabelNeedsHuman)
	}
}

// Get is an issue as it is now.
func (f *Forge) Get(n int64) forge.Issue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.issues[n]
}

// Pulls are all pull requests as they are now, by number.
func (f *Forge) Pulls() []forge.Pull {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pullsLocked(func(*forge.Pull) bool { return true })
}

// Comments are those that we wrote.
func (f *Forge) Comments() []Comment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.comments)
}

// Writes are our writes in the order in which they took effect, such as "claim #1 dev-qwen".
func (f *Forge) Writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

// Errors are what we did that a forge can tell to be wrong, such as claiming what is claimed.
func (f *Forge) Errors() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// Claimed lists what carries a claim.
func (f *Forge) Claimed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for n, is := range f.issues {
		if is.Has(forge.LabelInProgress) || len(is.Assignees) > 0 {
			list = append(list, fmt.Sprintf("#%d %v %v", n, is.Labels, is.Assignees))
		}
	}
	for n, p := range f.pulls {
		if p.Has(forge.LabelInProgress) || len(p.Assignees) > 0 {
			list = append(list, fmt.Sprintf("#%d %v %v", n, p.Labels, p.Assignees))
		}
	}
	slices.Sort(list)
	return list
}

// Done reports whether every issue is closed.
func (f *Forge) Done() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, is := range f.issues {
		if !is.Closed {
			return false
		}
	}
	return true
}

func (f *Forge) pullsLocked(want func(*forge.Pull) bool) []forge.Pull {
	var list []forge.Pull
	for _, p := range f.pulls {
		if want(p) {
			list = append(list, *p)
		}
	}
	slices.SortFunc(list, func(a, b forge.Pull) int { return a.Ref.Compare(b.Ref) })
	return list
}
