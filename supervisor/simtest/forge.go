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

// Repo is the repository of a simulated forge that has only one.
const Repo = "johba/harb"

// Ref names an issue or pull request of Repo.
func Ref(n int64) forge.Ref { return forge.Ref{Repo: Repo, Number: n} }

// Comment is a comment of the supervisor.
type Comment struct {
	Ref       forge.Ref
	Key, Body string
	At        time.Time
}

// Forge is a forge in memory. It has no network: every call takes Latency of the bubble's time, half before its
// effect and half after it. It is safe for concurrent use.
type Forge struct {
	Latency time.Duration
	Lag     time.Duration // time from the state that a scan shows to its answer
	// Tokens has the logins by token.
	Tokens map[string]string
	// Repos are the repositories, which share the numbers of their issues and pull requests.
	Repos []string

	mu       sync.Mutex // guards the fields below
	fault    Fault
	off      string                 // why the repository cannot be worked on
	cold     int                    // scans that stop early
	strict   bool                   // merges only pull requests that have the newest commit of main
	overlaps bool                   // a merge of main into a branch changes what its pull request changes
	mains    map[string]*mainBranch // by repository
	checks   []string               // of main and of each pull request; those of what has a red commit in it fail
	breaks   int                    // merges until one turns its main branch red; 0: none does
	issues   map[int64]*forge.Issue
	pulls    map[int64]*forge.Pull
	asked    map[int64]map[string][]time.Time // comments of others, by number and account
	kept     map[string]string                // comments of Keep, by item and key
	keeps    int
	comments []Comment
	said     []forge.CommandComment
	hesitant bool                     // people do not confirm their commands
	taken    map[int64]string         // instances that took a command, by comment
	holders  map[int64]holder         // by number
	twins    map[string]holder        // by instance: who found its twin
	remarks  map[int64][]forge.Remark // by number
	approved map[int64]string         // account that labelled an issue plan-approved
	writes   []string
	last     int64 // last number of an issue or pull request
	heads    int64
	requests int64

	lastRemark int64
	errs       []string
}

// Fault is called before each call with the call's name, such as scan or claim. Its error is the call's answer. It
// may block.
type Fault func(ctx context.Context, call string) error

// set sets a field under the mutex that guards it.
func set[T any](mu *sync.Mutex, field *T, value T) {
	mu.Lock()
	defer mu.Unlock()
	*field = value
}

// setToken gives the account of a token; "" makes the forge reject it.
func (f *Forge) setToken(token, login string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Tokens[token] = login; login == "" {
		delete(f.Tokens, token)
	}
}

// Fail sets the fault; nil means none.
func (f *Forge) Fail(fault Fault) { set(&f.mu, &f.fault, fault) }

// Shut makes scans report why the repository cannot be worked on; "" means that it can.
func (f *Forge) Shut(why string) { set(&f.mu, &f.off, why) }

// Strict makes the forge merge only pull requests that have the newest commit of main. overlaps makes a merge of main
// into a branch change what its pull request changes.
func (f *Forge) Strict(overlaps bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strict, f.overlaps = true, overlaps
}

// Cold makes the next n scans stop early: they return the issues without their dependencies.
func (f *Forge) Cold(n int) { set(&f.mu, &f.cold, n) }

// NewForge returns an empty forge.
func NewForge() *Forge {
	return &Forge{
		Latency: 40 * time.Millisecond,
		Tokens:  make(map[string]string),
		Repos:   []string{Repo},
		mains:   make(map[string]*mainBranch),
		issues:  make(map[int64]*forge.Issue),
		pulls:   make(map[int64]*forge.Pull),
		asked:   make(map[int64]map[string][]time.Time),
		taken:   make(map[int64]string),
		holders: make(map[int64]holder),
		twins:   make(map[string]holder),
		kept:    make(map[string]string),

		remarks: make(map[int64][]forge.Remark), approved: make(map[int64]string),
	}
}

// Issue files an issue of Repo with blockers in the backlog, and returns its number.
func (f *Forge) Issue(title string, blockers ...int64) int64 {
	return f.IssueIn(Repo, title, blockers...)
}

// IssueIn files an issue of a repository with blockers in the backlog, and returns its number.
func (f *Forge) IssueIn(repo, title string, blockers ...int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	is := &forge.Issue{
		Ref: forge.Ref{Repo: repo, Number: f.last}, Title: title, Author: "johba", Labels: []string{forge.LabelBacklog},
		Created: time.Now(), Updated: time.Now(), BlockersKnown: true,
	}
	for _, b := range blockers {
		is.Blockers = append(is.Blockers, forge.Blocker{Ref: f.refLocked(b)})
	}
	f.issues[f.last] = is
	return f.last
}

// Open opens an agent's pull request for an issue and returns its number. If the issue has an open one, Open pushes
// to it instead.
func (f *Forge) Open(issue int64, login string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, p := range f.pulls {
		if slices.Contains(p.Closes, f.refLocked(issue)) && !p.Closed {
			f.pushLocked(p)
			return n
		}
	}
	n := f.openLocked(login, issue)
	f.pulls[n].Title, f.pulls[n].Head = f.issues[issue].Title, "fix/issue-"+strconv.FormatInt(issue, 10)
	return n
}

// refLocked returns the reference of a number. One that nothing has is of Repo.
func (f *Forge) refLocked(n int64) forge.Ref {
	if is := f.issues[n]; is != nil {
		return is.Ref
	}
	if p := f.pulls[n]; p != nil {
		return p.Ref
	}
	return Ref(n)
}

// OpenMore opens a pull request beside those that there are, on a branch of its own, and returns its number. Its text
// names what it closes: issues, pull requests, or nothing.
func (f *Forge) OpenMore(login string, closes ...int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.openLocked(login, closes...)
}

func (f *Forge) openLocked(login string, closes ...int64) int64 {
	f.last++
	repo := Repo
	if len(closes) > 0 {
		repo = f.refLocked(closes[0]).Repo
	}
	p := &forge.Pull{
		Ref: forge.Ref{Repo: repo, Number: f.last}, Title: "more", Author: login, Head: fmt.Sprintf("more-%d", f.last),
		HeadRepo: repo, Base: "main", Mergeable: forge.MergeClean, Created: time.Now(), MergeBase: f.tipLocked(repo),
	}
	for _, n := range closes {
		p.Closes = append(p.Closes, f.refLocked(n))
	}
	f.pushLocked(p)
	f.pulls[f.last] = p
	return f.last
}

// Drop closes a pull request unmerged, with an agent's account.
func (f *Forge) Drop(pull int64, login string) {
	f.EditPull(pull, func(p *forge.Pull) {
		if !p.Closed {
			p.Closed, p.Ended, p.ClosedBy = true, time.Now(), login
		}
	})
}

// Push moves the head of a pull request.
func (f *Forge) Push(pull int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushLocked(f.pulls[pull])
}

func (f *Forge) pushLocked(p *forge.Pull) {
	f.heads++
	p.HeadSHA, p.CI, p.Updated = fmt.Sprintf("%07x%033d", f.heads, 0), forge.CINone, time.Now()
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

// Say comments on an issue or pull request with another account than the supervisor's.
func (f *Forge) Say(n int64, login string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked[n] == nil {
		f.asked[n] = make(map[string][]time.Time)
	}
	f.asked[n][login] = append(f.asked[n][login], time.Now())
}

// Delete removes an issue, like a deletion or a transfer.
func (f *Forge) Delete(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.issues, n)
}

// Edit changes an issue as a person.
func (f *Forge) Edit(n int64, change func(*forge.Issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.issues[n]
	is.Labels, is.Assignees = slices.Clone(is.Labels), slices.Clone(is.Assignees)
	change(is)
	is.Updated = time.Now()
}

// EditPull changes a pull request as a person.
func (f *Forge) EditPull(n int64, change func(*forge.Pull)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pulls[n]
	p.Labels, p.Assignees = slices.Clone(p.Labels), slices.Clone(p.Assignees)
	change(p)
	p.Updated = time.Now()
}

// SendBack removes the labels blocked and needs-human, as a person who wants another try does.
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

// Get returns the current state of an issue.
func (f *Forge) Get(n int64) forge.Issue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.issues[n]
}

// Has reports whether there is an issue.
func (f *Forge) Has(n int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.issues[n] != nil
}

// Pulls returns the current state of all pull requests, by number.
func (f *Forge) Pulls() []forge.Pull {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pullsLocked(func(*forge.Pull) bool { return true })
}

// Comments returns the comments of the supervisor.
func (f *Forge) Comments() []Comment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.comments)
}

// Writes returns the supervisor's writes in the order in which they took effect, such as "claim #1 dev-qwen".
func (f *Forge) Writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

// Errors returns the supervisor's mistakes that a forge can see, such as a claim of a claimed item.
func (f *Forge) Errors() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// Claimed lists the items with a claim.
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
			if f.checks != nil && !p.Closed {
				f.checkedLocked(&list[len(list)-1])
			}
		}
	}
	slices.SortFunc(list, func(a, b forge.Pull) int { return a.Ref.Compare(b.Ref) })
	return list
}
