package forgetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// model is the smallest forge that passes all rules: maps under a lock. flaw names the one rule that it violates.
type model struct {
	t    testing.TB
	flaw string

	mu     sync.Mutex
	last   int64
	tokens map[string]string // login by token
	repos  map[string]*modelRepo
}

type modelRepo struct {
	writers  []string
	main     map[string]string // text by file
	branches map[string]*modelBranch
	items    map[int64]*modelItem
	checks   map[string][]forge.Status // by head
	heard    map[int64]string          // instance by comment
	merged   map[string]bool           // heads
}

type modelBranch struct {
	head          string
	coders        []string
	base, changed map[string]string // main when the branch began, and the branch's own files
}

type modelItem struct {
	issue    forge.Issue
	pull     *forge.Pull // nil for an issue
	deps     []forge.Ref
	comments []modelComment
	claim    modelClaim

	approvedBy string // login that set the label plan-approved
}

type modelComment struct {
	login, body string
	at          time.Time
	id          int64
	key         string // key of a comment that a supervisor wrote
	likes       []string
}

type modelClaim struct{ instance, run, host string }

func newModel(t testing.TB, flaw string) *model {
	return &model{t: t, flaw: flaw, tokens: map[string]string{}, repos: map[string]*modelRepo{}}
}

func (m *model) number() int64 {
	m.last++
	return m.last
}

func (m *model) Account(name string) (login, token string) {
	login, token = fmt.Sprint(name, m.number()), fmt.Sprint("token", m.number())
	m.tokens[token] = login
	return login, token
}

func (m *model) Repo(writers ...string) string {
	name := fmt.Sprint("owner/repo", m.number())
	m.repos[name] = &modelRepo{
		writers: writers, main: map[string]string{}, branches: map[string]*modelBranch{}, items: map[int64]*modelItem{},
		checks: map[string][]forge.Status{}, merged: map[string]bool{}, heard: map[int64]string{},
	}
	return name
}

func (m *model) Supervisor(s Supervisor) Forge {
	return &modelClient{m: m, s: s, seen: map[forge.Ref]time.Time{}, conflicts: map[string]time.Time{}}
}

// at returns an item, which must exist.
func (m *model) at(ref forge.Ref) *modelItem {
	it := m.repos[ref.Repo].items[ref.Number]
	if it == nil {
		m.t.Fatalf("the item %s does not exist", ref)
	}
	return it
}

func (m *model) Assign(ref forge.Ref, logins ...string) {
	it := m.at(ref)
	it.issue.Assignees = logins
	it.issue.Updated = time.Now()
}

func (m *model) Say(login string, ref forge.Ref, body string) {
	m.say(m.at(ref), login, body, "")
}

func (m *model) Comments(ref forge.Ref) (texts []string) {
	for _, c := range m.at(ref).comments {
		texts = append(texts, c.body)
	}
	return texts
}

func (m *model) Push(login, repo, branch, file, text string) string {
	r := m.repos[repo]
	b := r.branches[branch]
	if b == nil {
		b = &modelBranch{base: maps.Clone(r.main), changed: map[string]string{}}
		r.branches[branch] = b
	}
	b.head, b.changed[file] = fmt.Sprintf("%040d", m.number()), text
	b.coders = append(b.coders, login)
	return b.head
}

func (m *model) Branch(_, repo, branch, from string) {
	b := *m.repos[repo].branches[from]
	b.base, b.changed = maps.Clone(b.base), maps.Clone(b.changed)
	m.repos[repo].branches[branch] = &b
}

func (m *model) Retarget(_ string, ref forge.Ref, base string) {
	p := m.at(ref).pull
	p.Base = base
	if m.flaw != "a changed base has no time" {
		p.Retargeted = time.Now()
	}
}

func (m *model) Open(login, repo, branch, title, body string) forge.Ref {
	ref := forge.Ref{Repo: repo, Number: m.number()}
	it := &modelItem{issue: forge.Issue{
		Ref: ref, Title: title, Body: body, Author: login, Created: time.Now(),
		Updated: time.Now(),
	}}
	it.pull = &forge.Pull{
		Ref: ref, Title: title, Body: body, Author: login, Head: branch, HeadRepo: repo, Base: "main",
		Draft: forge.IsDraft(title, false), Closes: forge.Closes(branch, title, body, repo), Created: time.Now(),
	}
	m.repos[repo].items[ref.Number] = it
	return ref
}

func (m *model) Review(login string, ref forge.Ref, head string, verdict forge.Verdict) {
	p := m.at(ref).pull
	p.Reviews = append(p.Reviews, forge.Review{
		ID: m.number(), Author: login, Verdict: verdict, CommitSHA: head, Official: true, Submitted: time.Now(),
	})
}

func (m *model) Report(repo, head, check, state string) {
	r := m.repos[repo]
	r.checks[head] = append(r.checks[head], forge.Status{ID: m.number(), Context: check, State: state})
}

// conflicts reports whether main has changed a file of the branch since the branch began.
func (r *modelRepo) conflicts(b *modelBranch) bool {
	for file, text := range b.changed {
		if r.main[file] != b.base[file] && r.main[file] != text {
			return true
		}
	}
	return false
}

// modelClient implements Forge.
type modelClient struct {
	m         *model
	s         Supervisor
	requests  int64
	seen      map[forge.Ref]time.Time // issue's last change in the last scan
	shown     map[forge.Ref]bool      // issues that the last scan showed
	conflicts map[string]time.Time    // by head: time of the first scan that saw its conflict
}

// enter begins a call: it takes the lock and counts the request.
func (c *modelClient) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil && c.m.flaw != "contexts are ignored" {
		return func() {}, fmt.Errorf("cannot ask the forge: %w", err)
	}
	c.m.mu.Lock()
	c.requests++
	return c.m.mu.Unlock, nil
}

// item begins a call for one item.
func (c *modelClient) item(ctx context.Context, ref forge.Ref) (it *modelItem, leave func(), err error) {
	leave, err = c.enter(ctx)
	if err != nil {
		return nil, leave, err
	}
	if r := c.m.repos[ref.Repo]; r != nil {
		it = r.items[ref.Number]
	}
	if it == nil {
		return nil, leave, fmt.Errorf("cannot read %s: %w", ref, forge.ErrNotFound)
	}
	return it, leave, nil
}

func (it *modelItem) touch() { it.issue.Updated = time.Now() }

func (it *modelItem) closed() bool { return it.issue.Closed }

func (c *modelClient) Prepare(ctx context.Context) error {
	leave, err := c.enter(ctx)
	defer leave()
	for _, name := range c.s.Repos {
		r := c.m.repos[name]
		switch {
		case err != nil:
		case r == nil:
			err = fmt.Errorf("cannot see %s: %w", name, forge.ErrNotFound)
		case !slices.Contains(r.writers, c.login()) && c.m.flaw != "readers are prepared":
			err = fmt.Errorf("cannot write to %s: %w", name, forge.ErrForbidden)
		}
	}
	return err
}

func (c *modelClient) login() string { return c.m.tokens[c.s.Token] }

func (c *modelClient) Scan(ctx context.Context) (f forge.Facts, err error) {
	leave, err := c.enter(ctx)
	defer leave()
	if err != nil {
		return f, err
	}
	now := time.Now()
	before := c.shown
	c.shown = map[forge.Ref]bool{}
	for _, name := range c.s.Repos {
		r := c.m.repos[name]
		if r == nil {
			f.Repos = append(f.Repos, forge.Repo{Name: name})
			err = fmt.Errorf("cannot scan %s: %w", name, forge.ErrNotFound)
			continue
		}
		f.Repos = append(f.Repos, forge.Repo{Name: name, AsOf: now, DefaultBranch: "main", Heard: now})
		f.Said = append(f.Said, c.said(r)...)
		for _, n := range slices.Sorted(maps.Keys(r.items)) {
			it := r.items[n]
			switch {
			case it.pull != nil:
				f.Pulls = append(f.Pulls, c.pull(r, it, now))
			case !it.closed(), before[it.issue.Ref], c.referred(r, it):
				f.Issues = append(f.Issues, c.issue(it, now))
				c.seen[it.issue.Ref], c.shown[it.issue.Ref] = it.issue.Updated, true
			}
		}
	}
	if c.m.flaw == "ended issues vanish" {
		f.Issues = slices.DeleteFunc(f.Issues, func(i forge.Issue) bool { return i.Closed })
	}
	return f, err
}

// referred reports whether an open issue or pull request refers to the item.
func (c *modelClient) referred(r *modelRepo, to *modelItem) bool {
	for _, it := range r.items {
		refs := append(forge.Dependencies(it.issue.Body, it.issue.Ref), it.deps...)
		if !it.closed() && slices.Contains(refs, to.issue.Ref) {
			return true
		}
	}
	return false
}

func (c *modelClient) issue(it *modelItem, now time.Time) forge.Issue {
	i := it.issue
	i.AsOf, i.BlockersKnown, i.Blockers = now, true, c.blockers(it)
	i.Labels = slices.Clone(i.Labels)
	if c.m.flaw == "AsOf is when it was filed" {
		i.AsOf = i.Created
	}
	i.HeldBy = c.heldBy(it)
	i.Talk = c.talk(c.m.repos[i.Repo], it)
	return i
}

func (c *modelClient) heldBy(it *modelItem) string {
	if it.claim.instance == "" || it.claim.instance == c.s.Instance || c.m.flaw == "holders are hidden" {
		return ""
	}
	return it.claim.host
}

func (c *modelClient) pull(r *modelRepo, it *modelItem, now time.Time) forge.Pull {
	p, b := *it.pull, r.branches[it.pull.Head]
	p.Labels, p.Assignees, p.HeldBy = it.issue.Labels, it.issue.Assignees, c.heldBy(it)
	p.Talk = c.talk(r, it)
	p.Closed, p.Ended, p.AsOf, p.HeadSHA = it.closed(), it.issue.Ended, now, b.head
	p.CI = forge.CombineCI(nil, r.checks[b.head])
	p.Stranger = !slices.Contains(r.writers, p.Author) && c.m.flaw != "every account may write"
	p.MergeBase = "m" + b.head
	p.Contained = !p.Closed && r.merged[b.head] && c.m.flaw != "an unfinished merge does not show"
	p.Coders = slices.Compact(slices.Sorted(slices.Values(b.coders)))
	if c.m.flaw == "the opener wrote everything" {
		p.Coders = []string{p.Author}
	}
	switch {
	case p.Closed:
	case !r.conflicts(b):
		p.Mergeable = forge.MergeClean
	case c.conflicts[b.head].IsZero():
		c.conflicts[b.head] = now
		p.ConflictSince = now
		if c.m.flaw == "conflicts are believed at once" {
			p.Mergeable = forge.MergeNotClean
		}
	default:
		p.ConflictSince = c.conflicts[b.head]
		if now.Sub(p.ConflictSince) >= 30*time.Second {
			p.Mergeable = forge.MergeNotClean
		}
	}
	if c.m.flaw == "checks stay when the head moves" {
		p.CI = forge.CombineCI(nil, slices.Concat(slices.Collect(maps.Values(r.checks))...))
	}
	return p
}

func (c *modelClient) Look(ctx context.Context, ref forge.Ref, since time.Time) (look forge.Look, err error) {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return look, err
	}
	look.Comments = map[string]int{}
	for _, said := range it.comments {
		if !said.at.Before(since) || c.m.flaw == "all comments are counted" {
			look.Comments[said.login]++
		}
	}
	r, now := c.m.repos[ref.Repo], time.Now()
	if it.pull != nil {
		p := c.pull(r, it, now)
		look.Pull = &p
		return look, nil
	}
	i := c.issue(it, now)
	look.Issue = &i
	for _, n := range slices.Sorted(maps.Keys(r.items)) {
		if p := r.items[n].pull; p != nil && slices.Contains(p.Closes, ref) && c.m.flaw != "looks find no pull requests" {
			look.Pulls = append(look.Pulls, c.pull(r, r.items[n], now))
		}
	}
	return look, nil
}

func (c *modelClient) Claim(ctx context.Context, ref forge.Ref, login, runID string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	if c.m.flaw == "claims race" {
		leave()
		time.Sleep(time.Millisecond)
		c.m.mu.Lock()
	}
	if why := c.taken(it, login, runID); why != "" {
		return fmt.Errorf("cannot claim %s: %w: %s", ref, forge.ErrTaken, why)
	}
	it.claim = modelClaim{c.s.Instance, runID, c.s.Host}
	c.mark(it, login)
	return nil
}

func (c *modelClient) ClaimCommit(ref forge.Ref) string {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	it := c.m.repos[ref.Repo].items[ref.Number]
	switch {
	case it == nil:
		return ""
	case c.m.flaw == "claims name what they like":
		return fmt.Sprint(time.Now())
	case c.m.flaw == "released claims have a commit":
		return "commit"
	case it.claim.instance == c.s.Instance:
		return it.claim.run
	}
	return ""
}

func (c *modelClient) mark(it *modelItem, login string) {
	it.label([]string{forge.LabelInProgress}, nil)
	if !slices.Contains(it.issue.Assignees, login) {
		it.issue.Assignees = append(slices.Clone(it.issue.Assignees), login)
	}
	it.touch()
}

// taken says why an item cannot be claimed; "" means that it can be.
func (c *modelClient) taken(it *modelItem, login, runID string) string {
	flaw, i := c.m.flaw, &it.issue
	others := slices.DeleteFunc(slices.Clone(i.Assignees), func(l string) bool { return l == login })
	seen, known := c.seen[i.Ref]
	switch {
	case it.claim.instance != "" && it.claim.instance != c.s.Instance && flaw != "held items are claimed" &&
		flaw != "claims race":
		return "it is held"
	case it.claim.run == runID:
		return ""
	case i.Closed && flaw != "closed items are claimed":
		return "it is closed"
	case it.pull != nil:
		return ""
	case forge.SkipLabel(i.Labels) != "" && flaw != "skip labels are ignored":
		return "it has a label"
	case len(others) > 0 && flaw != "assignees are ignored":
		return "it is another's"
	case i.Has(forge.LabelInProgress) && it.claim.instance == "" && flaw != "half claims are claimed":
		return "it is in progress"
	case known && i.Updated.After(seen) && flaw != "old facts are claimed on":
		return "it changed"
	}
	return ""
}

func (c *modelClient) Release(ctx context.Context, ref forge.Ref, login string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case it == nil && c.m.flaw != "releases of nothing fail":
		return nil
	case it == nil:
		return err
	case it.claim.instance != "" && it.claim.instance != c.s.Instance && c.m.flaw != "held items are released":
		return fmt.Errorf("cannot release %s: %w", ref, forge.ErrTaken)
	}
	it.claim = modelClaim{}
	it.label(nil, []string{forge.LabelInProgress})
	if c.m.flaw == "releases take backlog" {
		it.label(nil, []string{forge.LabelBacklog})
	}
	it.issue.Assignees = slices.DeleteFunc(slices.Clone(it.issue.Assignees), func(l string) bool { return l == login })
	it.touch()
	return nil
}

func (c *modelClient) Free(ctx context.Context, ref forge.Ref) (string, error) {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return "", err
	}
	was := it.claim.host
	if c.m.flaw != "nothing is freed" {
		it.claim = modelClaim{}
	}
	return was, nil
}

func (it *modelItem) label(add, remove []string) {
	labels := slices.DeleteFunc(append(slices.Clone(it.issue.Labels), add...),
		func(l string) bool { return slices.Contains(remove, l) })
	slices.Sort(labels)
	it.issue.Labels = slices.Compact(labels)
	it.touch()
}

func (c *modelClient) Label(ctx context.Context, ref forge.Ref, add, remove []string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	if slices.Contains(remove, forge.LabelBacklog) && c.m.flaw != "backlog is removed" {
		return fmt.Errorf("cannot label %s: backlog is not ours to remove", ref)
	}
	if c.m.flaw == "unknown labels are dropped" {
		add = slices.DeleteFunc(slices.Clone(add), func(l string) bool { return l == "brand-new" })
	}
	it.label(add, remove)
	return nil
}

func (c *modelClient) Comment(ctx context.Context, ref forge.Ref, key, body string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	mark := "<!-- " + key + " -->"
	for _, said := range it.comments {
		ours := said.login == c.login() || c.m.flaw == "anybody's mark counts"
		if ours && strings.Contains(said.body, mark) && c.m.flaw != "comments are repeated" {
			return nil
		}
	}
	c.m.say(it, c.login(), body+mark, keyIn(mark))
	return nil
}

func (c *modelClient) Keep(ctx context.Context, ref forge.Ref, key, body string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	mark := "<!-- disinto:" + key + " -->"
	for i := range it.comments {
		said := &it.comments[i]
		if said.login == c.login() && strings.Contains(said.body, mark) && c.m.flaw != "kept comments are repeated" {
			if c.m.flaw != "kept comments keep their text" {
				said.body = body + mark
			}
			return nil
		}
	}
	c.m.say(it, c.login(), body+mark, keyIn(mark))
	return nil
}

func (c *modelClient) Close(ctx context.Context, ref forge.Ref) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	for _, b := range c.blockers(it) {
		if b.State == forge.BlockerOpen && c.m.flaw == "blocked issues stay open in silence" {
			return nil
		}
		if b.State == forge.BlockerOpen {
			return fmt.Errorf("cannot close %s: %w", ref, forge.ErrConflict)
		}
	}
	it.end()
	return nil
}

func (it *modelItem) end() {
	it.issue.Closed, it.issue.Ended = true, time.Now()
	it.touch()
}

func (c *modelClient) File(ctx context.Context, d forge.Draft) (forge.Ref, error) {
	leave, err := c.enter(ctx)
	defer leave()
	if err != nil {
		return forge.Ref{}, err
	}
	r := c.m.repos[d.Repo]
	if r == nil {
		return forge.Ref{}, fmt.Errorf("cannot file an issue in %s: %w", d.Repo, forge.ErrNotFound)
	}
	ref := forge.Ref{Repo: d.Repo, Number: c.m.number()}
	it := &modelItem{issue: forge.Issue{Ref: ref, Title: d.Title, Body: d.Body, Author: c.login(), Created: time.Now()}}
	it.label(d.Labels, nil)
	if c.m.flaw == "labels are in the order of the draft" {
		it.issue.Labels = d.Labels
	}
	r.items[ref.Number] = it
	return ref, nil
}

func (c *modelClient) Depend(ctx context.Context, ref, on forge.Ref) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	if c.m.repos[on.Repo].items[on.Number] == nil {
		return fmt.Errorf("cannot depend on %s: %w", on, forge.ErrNotFound)
	}
	if slices.Contains(it.deps, on) {
		if c.m.flaw == "dependencies are not repeated" {
			return fmt.Errorf("cannot depend on %s: %w", on, forge.ErrUnavailable)
		}
		return nil
	}
	it.deps = append(it.deps, on)
	it.touch()
	return nil
}

func (c *modelClient) Blockers(ctx context.Context, ref forge.Ref) ([]forge.Blocker, error) {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return nil, err
	}
	return c.blockers(it), nil
}

func (c *modelClient) blockers(it *modelItem) (all []forge.Blocker) {
	state := func(ref forge.Ref) forge.BlockerState {
		on := c.m.repos[ref.Repo].items[ref.Number]
		switch {
		case on == nil:
			return forge.BlockerMissing
		case !on.closed():
			return forge.BlockerOpen
		case on.issue.Has(forge.LabelCancelled) && c.m.flaw != "cancelled unblocks":
			return forge.BlockerCancelled
		}
		return forge.BlockerClosed
	}
	for _, ref := range it.deps {
		all = append(all, forge.Blocker{Ref: ref, State: state(ref)})
	}
	for _, ref := range forge.Dependencies(it.issue.Body, it.issue.Ref) {
		if c.m.flaw != "text is not read" {
			all = append(all, forge.Blocker{Ref: ref, State: state(ref), InBody: true})
		}
	}
	slices.SortFunc(all, func(a, b forge.Blocker) int { return a.Ref.Compare(b.Ref) })
	return all
}

func (c *modelClient) Reassign(ctx context.Context, ref forge.Ref, from, to string, labels []string, _ string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	now, want := it.issue.Assignees, []string{from}
	if from == "" {
		want = nil
	}
	done := slices.Equal(now, []string{to}) && c.m.flaw != "moves are not repeated"
	begun := it.issue.Has(forge.LabelInProgress) && c.m.flaw != "claimed issues are moved"
	if it.closed() && c.m.flaw != "closed issues are moved" || begun || !done && !slices.Equal(now, want) &&
		c.m.flaw != "moves come from anywhere" {
		return fmt.Errorf("cannot move %s: %w", ref, forge.ErrTaken)
	}
	it.label(labels, nil)
	it.issue.Assignees = []string{to}
	it.touch()
	return nil
}

func (c *modelClient) Merge(ctx context.Context, ref forge.Ref, headSHA, base string) error {
	it, leave, err := c.item(ctx, ref)
	defer leave()
	if err != nil {
		return err
	}
	r := c.m.repos[ref.Repo]
	b := r.branches[it.pull.Head]
	switch {
	case it.pull.Merged && c.m.flaw != "merges are not repeated":
		return nil
	case it.closed(), b.head != headSHA && c.m.flaw != "any head is merged", r.conflicts(b),
		it.pull.Base != base && c.m.flaw != "any base is merged into", it.pull.Draft:
		return fmt.Errorf("cannot merge %s: %w", ref, forge.ErrConflict)
	}
	maps.Copy(r.main, b.changed)
	it.pull.Merged, r.merged[b.head] = true, true
	it.end()
	for _, on := range it.pull.Closes {
		r.items[on.Number].end()
	}
	return nil
}

func (c *modelClient) WhoAmI(ctx context.Context, token string) (string, error) {
	leave, err := c.enter(ctx)
	defer leave()
	if err != nil {
		return "", err
	}
	if token == "" {
		token = c.s.Token
	}
	login, ok := c.m.tokens[token]
	if !ok && c.m.flaw == "errors have the token in them" {
		return "", fmt.Errorf("cannot sign in with %s: %w", token, forge.ErrForbidden)
	}
	if !ok {
		return "", fmt.Errorf("cannot sign in: %w", forge.ErrForbidden)
	}
	return login, nil
}

func (c *modelClient) MayWork(ctx context.Context, token, repo string) error {
	leave, err := c.enter(ctx)
	defer leave()
	if err != nil {
		return err
	}
	r := c.m.repos[repo]
	if r == nil || !slices.Contains(r.writers, c.m.tokens[token]) && c.m.flaw != "readers may work" {
		return fmt.Errorf("cannot work: %w", forge.ErrForbidden)
	}
	return nil
}

func (c *modelClient) Requests() int64 {
	if c.m.flaw == "requests are not counted" {
		return 0
	}
	return c.requests
}
