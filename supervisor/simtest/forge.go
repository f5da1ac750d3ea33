package simtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	cold     int // scans that stop early
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
	p.HeadSHA, p.Updated = fmt.Sprintf("%040x", f.heads), time.Now()
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

// call is what all calls have in common.
func (f *Forge) call(ctx context.Context, name string, effect func() error) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, name); err != nil {
			return err
		}
	}
	if err := f.wait(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	f.requests++
	err := effect()
	f.mu.Unlock()
	if late := f.wait(ctx); late != nil {
		return late
	}
	return err
}

func (f *Forge) wait(ctx context.Context) error {
	select {
	case <-time.After(f.Latency / 2):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, ctx.Err())
	}
}

func (f *Forge) wrote(format string, args ...any) {
	f.writes = append(f.writes, fmt.Sprintf(format, args...))
}

// Prepare has nothing to do.
func (f *Forge) Prepare(ctx context.Context) error {
	return f.call(ctx, "prepare", func() error { return nil })
}

// Scan reads everything. Its facts are dated with the beginning of the request, as a client has to. In a bubble no time
// passes between two statements, so that a request seems to begin in the very moment of the write before it; outside,
// there are microseconds.
func (f *Forge) Scan(ctx context.Context) (facts forge.Facts, err error) {
	time.Sleep(time.Microsecond)
	began := time.Now()
	err = f.call(ctx, "scan", func() error {
		facts = f.factsLocked(began)
		if f.cold > 0 {
			f.cold--
			facts.More = true
			for i := range facts.Issues {
				facts.Issues[i].BlockersKnown = false
			}
		}
		return nil
	})
	if err != nil {
		return forge.Facts{}, err
	}
	time.Sleep(f.Lag)
	return facts, nil
}

func (f *Forge) factsLocked(began time.Time) forge.Facts {
	facts := forge.Facts{Repos: []forge.Repo{{Name: Repo, AsOf: began, DefaultBranch: "main"}}}
	blockers := make(map[int64]bool)
	for _, is := range f.issues {
		for _, b := range is.Blockers {
			blockers[b.Number] = blockers[b.Number] || !is.Closed
		}
	}
	for n, is := range f.issues {
		if is.Closed && !blockers[n] {
			continue
		}
		got := *is
		got.AsOf = began
		got.Blockers = slices.Clone(is.Blockers)
		for i := range got.Blockers {
			got.Blockers[i].State = forge.BlockerMissing
			if b := f.issues[got.Blockers[i].Number]; b != nil {
				got.Blockers[i].State = forge.BlockerOpen
				if b.Closed {
					got.Blockers[i].State = forge.BlockerClosed
				}
			}
		}
		facts.Issues = append(facts.Issues, got)
	}
	slices.SortFunc(facts.Issues, func(a, b forge.Issue) int { return a.Ref.Compare(b.Ref) })
	facts.Pulls = f.pullsLocked(func(p *forge.Pull) bool {
		return !p.Closed || !f.issues[p.Closes[0].Number].Closed
	})
	for i := range facts.Pulls {
		facts.Pulls[i].AsOf = began
	}
	return facts
}

// Look reads one item.
func (f *Forge) Look(ctx context.Context, ref forge.Ref, since time.Time) (look forge.Look, err error) {
	err = f.call(ctx, "look", func() error {
		look.Comments = make(map[string]int)
		for login, times := range f.asked[ref.Number] {
			for _, t := range times {
				if !t.Before(since) {
					look.Comments[login]++
				}
			}
		}
		if is := f.issues[ref.Number]; is != nil {
			got := *is
			look.Issue = &got
			look.Pulls = f.pullsLocked(func(p *forge.Pull) bool { return slices.Contains(p.Closes, ref) })
			return nil
		}
		if p := f.pulls[ref.Number]; p != nil {
			got := *p
			look.Pull = &got
			return nil
		}
		return forge.ErrNotFound
	})
	return look, err
}

// Claim labels first and assigns then, as two requests.
func (f *Forge) Claim(ctx context.Context, ref forge.Ref, login, _ string) error {
	err := f.call(ctx, "claim", func() error {
		labels, assignees, closed := f.markedLocked(ref)
		if closed || slices.Contains(*labels, forge.LabelInProgress) || len(*assignees) > 0 && f.issues[ref.Number] != nil &&
			!slices.Equal(*assignees, []string{login}) {
			f.errs = append(f.errs, fmt.Sprintf("claim of %s by %s: labels %v, assignees %v", ref.Short(), login, *labels, *assignees))
			return fmt.Errorf("%s: %w", ref.Short(), forge.ErrTaken)
		}
		*labels = with(*labels, forge.LabelInProgress)
		f.wrote("label %s in-progress", ref.Short())
		return nil
	})
	if err != nil {
		return err
	}
	return f.call(ctx, "assign", func() error {
		_, assignees, _ := f.markedLocked(ref)
		*assignees = with(*assignees, login)
		f.wrote("claim %s %s", ref.Short(), login)
		return nil
	})
}

// Release takes the assignee off first and the label then, as two requests.
func (f *Forge) Release(ctx context.Context, ref forge.Ref, login string) error {
	err := f.call(ctx, "unassign", func() error {
		_, assignees, _ := f.markedLocked(ref)
		*assignees = without(*assignees, login)
		return nil
	})
	if err != nil {
		return err
	}
	return f.call(ctx, "release", func() error {
		labels, assignees, _ := f.markedLocked(ref)
		if len(*assignees) == 0 || f.pulls[ref.Number] != nil {
			*labels = without(*labels, forge.LabelInProgress)
		}
		f.wrote("release %s %s", ref.Short(), login)
		return nil
	})
}

// Label adds and removes labels.
func (f *Forge) Label(ctx context.Context, ref forge.Ref, add, remove []string) error {
	return f.call(ctx, "label", func() error {
		labels, _, _ := f.markedLocked(ref)
		for _, l := range add {
			*labels = with(*labels, l)
			f.wrote("label %s %s", ref.Short(), l)
		}
		for _, l := range remove {
			*labels = without(*labels, l)
			f.wrote("unlabel %s %s", ref.Short(), l)
		}
		return nil
	})
}

// Comment writes one comment per key.
func (f *Forge) Comment(ctx context.Context, ref forge.Ref, key, body string) error {
	return f.call(ctx, "comment", func() error {
		for _, c := range f.comments {
			if c.Ref == ref && c.Key == key {
				return nil
			}
		}
		f.comments = append(f.comments, Comment{ref, key, body, time.Now()})
		f.wrote("comment %s %s", ref.Short(), key)
		return nil
	})
}

// Close closes an issue.
func (f *Forge) Close(ctx context.Context, ref forge.Ref) error {
	return f.call(ctx, "close", func() error {
		f.closeLocked(f.issues[ref.Number])
		f.wrote("close %s", ref.Short())
		return nil
	})
}

func (f *Forge) closeLocked(is *forge.Issue) {
	is.Closed, is.Updated = true, time.Now()
}

// Merge merges, and closes the issue that the pull request is for.
func (f *Forge) Merge(ctx context.Context, ref forge.Ref, headSHA string) error {
	return f.call(ctx, "merge", func() error {
		p := f.pulls[ref.Number]
		switch {
		case p.Merged:
			return nil
		case p.Closed, p.HeadSHA != headSHA, p.Mergeable != forge.MergeClean:
			return fmt.Errorf("cannot merge %s: %w", ref.Short(), forge.ErrConflict)
		}
		p.Merged, p.Closed, p.Ended, p.Updated = true, true, time.Now(), time.Now()
		for _, c := range p.Closes {
			f.closeLocked(f.issues[c.Number])
		}
		f.wrote("merge %s", ref.Short())
		return nil
	})
}

// WhoAmI knows the tokens.
func (f *Forge) WhoAmI(ctx context.Context, token string) (login string, err error) {
	err = f.call(ctx, "whoami", func() error {
		if login = f.Tokens[token]; login == "" {
			return fmt.Errorf("token: %w", forge.ErrForbidden)
		}
		return nil
	})
	return login, err
}

// Requests counts calls.
func (f *Forge) Requests() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *Forge) markedLocked(ref forge.Ref) (labels, assignees *[]string, closed bool) {
	if is := f.issues[ref.Number]; is != nil {
		is.Updated = time.Now()
		return &is.Labels, &is.Assignees, is.Closed
	}
	p := f.pulls[ref.Number]
	p.Updated = time.Now()
	return &p.Labels, &p.Assignees, p.Closed
}

// with and without make new lists: facts that were handed out must not change.
func with(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	list = append(slices.Clone(list), s)
	slices.Sort(list)
	return list
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(o string) bool { return strings.EqualFold(o, s) })
}
