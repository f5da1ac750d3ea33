package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Faults that are not refusals: the call takes effect with each of them.
var (
	errAnswerLost = errors.New("the answer was lost")
	errAnswerHalf = errors.New("the answer breaks off") // a scan returns only the issues
	errAnswerLate = errors.New("the answer is stale")   // the answer shows the state at the request
)

// late is the delay of a stale answer, just below the time limit of a call.
const late = 25 * time.Second

// call performs a call with its latency and fault.
func (f *Forge) call(ctx context.Context, name string, effect func() error) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	var how error
	if fault != nil {
		how = fault(ctx, name)
	}
	lost := errors.Is(how, errAnswerLost) || errors.Is(how, errAnswerHalf)
	if how != nil && !lost && !errors.Is(how, errAnswerLate) {
		return how
	}
	if err := f.wait(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	f.requests++
	err := effect()
	f.mu.Unlock()
	if lost {
		return fmt.Errorf("%s: %w: %w", name, forge.ErrUnavailable, how)
	}
	if errors.Is(how, errAnswerLate) {
		time.Sleep(late)
	}
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

// Prepare does nothing.
func (f *Forge) Prepare(ctx context.Context) error {
	return f.call(ctx, "prepare", func() error { return nil })
}

// Scan reads everything. Like every client's, its facts carry the time of the request. No time passes between two
// statements in a bubble, so Scan sleeps a microsecond first: otherwise the request would start at the very time of
// the write before it.
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
	if errors.Is(err, errAnswerHalf) {
		return f.half(facts), err
	}
	if err != nil {
		return forge.Facts{}, err
	}
	time.Sleep(f.Lag)
	f.mu.Lock()
	f.whole = facts
	f.mu.Unlock()
	return facts, nil
}

// half returns the facts of a scan that broke off: the current issues, and pull requests and repositories as of the
// last whole scan.
func (f *Forge) half(facts forge.Facts) forge.Facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.whole.Repos == nil {
		return forge.Facts{}
	}
	return forge.Facts{Repos: f.whole.Repos, Issues: facts.Issues, Pulls: f.whole.Pulls}
}

func (f *Forge) factsLocked(began time.Time) forge.Facts {
	facts := forge.Facts{
		Repos: []forge.Repo{{Name: Repo, AsOf: began, DefaultBranch: "main", Heard: began}}, Said: slices.Clone(f.said),
	}
	if f.off != "" {
		facts.Repos[0].Off, facts.Repos[0].AsOf = f.off, time.Time{}
	}
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
		got.Blockers, got.Talk = f.statesLocked(is.Blockers), f.talkLocked(n, is.Labels)
		facts.Issues = append(facts.Issues, got)
	}
	slices.SortFunc(facts.Issues, func(a, b forge.Issue) int { return a.Ref.Compare(b.Ref) })
	facts.Pulls = f.pullsLocked(func(p *forge.Pull) bool {
		return !p.Closed || !f.issues[p.Closes[0].Number].Closed
	})
	for i := range facts.Pulls {
		p := &facts.Pulls[i]
		p.AsOf, p.Talk = began, f.talkLocked(p.Number, p.Labels)
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

// Claim writes the label, then the assignee, as two requests.
func (f *Forge) Claim(ctx context.Context, ref forge.Ref, login, _ string) error {
	err := f.call(ctx, "claim", func() error {
		labels, assignees, closed := f.markedLocked(ref)
		if closed || slices.Contains(*labels, forge.LabelInProgress) || len(*assignees) > 0 && f.issues[ref.Number] != nil &&
			!slices.Equal(*assignees, []string{login}) {
			f.errs = append(f.errs, fmt.Sprintf("claim of %s by %s: labels %v, assignees %v",
				ref.Short(), login, *labels, *assignees))
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

// ClaimCommit returns "": these claims have no ref.
func (f *Forge) ClaimCommit(forge.Ref) string { return "" }

// Release removes the assignee, then the label, as two requests.
func (f *Forge) Release(ctx context.Context, ref forge.Ref, login string) error {
	err := f.call(ctx, "unassign", func() error {
		if f.issues[ref.Number] == nil && f.pulls[ref.Number] == nil {
			return nil
		}
		_, assignees, _ := f.markedLocked(ref)
		*assignees = without(*assignees, login)
		return nil
	})
	if err != nil {
		return err
	}
	return f.call(ctx, "release", func() error {
		if f.issues[ref.Number] == nil && f.pulls[ref.Number] == nil {
			return nil
		}
		labels, assignees, _ := f.markedLocked(ref)
		if len(*assignees) == 0 || f.pulls[ref.Number] != nil {
			*labels = without(*labels, forge.LabelInProgress)
		}
		f.wrote("release %s %s", ref.Short(), login)
		return nil
	})
}

// Free removes a claim that a test gave to another supervisor.
func (f *Forge) Free(ctx context.Context, ref forge.Ref) (was string, err error) {
	err = f.call(ctx, "free", func() error {
		if is := f.issues[ref.Number]; is != nil {
			was, is.HeldBy = is.HeldBy, ""
		}
		return nil
	})
	return was, err
}

// Reassign writes the labels, then the assignee, as two requests. Each checks the item first.
func (f *Forge) Reassign(ctx context.Context, ref forge.Ref, from, to string, add []string, _ string) error {
	look := func(do func(labels, assignees *[]string)) func() error {
		return func() error {
			labels, assignees, closed := f.markedLocked(ref)
			switch {
			case slices.Equal(*assignees, []string{to}):
			case closed, slices.Contains(*labels, forge.LabelInProgress), !slices.Equal(*assignees, pinned(from)):
				return fmt.Errorf("%s: %w", ref.Short(), forge.ErrTaken)
			}
			do(labels, assignees)
			return nil
		}
	}
	err := f.call(ctx, "mark", look(func(labels, _ *[]string) {
		for _, label := range add {
			*labels = with(*labels, label)
		}
	}))
	if err != nil {
		return err
	}
	return f.call(ctx, "hand over", look(func(_, assignees *[]string) {
		*assignees = pinned(to)
		f.wrote("reassign %s %s %s", ref.Short(), from, to)
	}))
}

func pinned(login string) []string {
	if login == "" {
		return nil
	}
	return []string{login}
}

// Label adds and removes labels.
func (f *Forge) Label(ctx context.Context, ref forge.Ref, add, remove []string) error {
	return f.call(ctx, "label", func() error {
		labels, _, _ := f.markedLocked(ref)
		for _, l := range add {
			if l == forge.LabelPlanApproved && !slices.Contains(*labels, l) {
				f.approved[ref.Number] = "disinto"
			}
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

// Keep creates or changes the one comment with a key.
func (f *Forge) Keep(ctx context.Context, ref forge.Ref, key, body string) error {
	return f.call(ctx, "keep", func() error {
		if f.kept == nil {
			f.kept = make(map[string]string)
		}
		f.kept[ref.Short()+" "+key] = body
		f.keeps++
		return nil
	})
}

// Kept returns the comments of Keep, by item and key, and the number of calls of Keep.
func (f *Forge) Kept() (kept map[string]string, calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.kept), f.keeps
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
		if forge.IsTalkKey(key) {
			f.remarkLocked(ref.Number, "disinto", key)
		}
		f.wrote("comment %s %s", ref.Short(), key)
		return nil
	})
}

// Close closes an issue.
func (f *Forge) Close(ctx context.Context, ref forge.Ref) error {
	return f.call(ctx, "close", func() error {
		if p := f.pulls[ref.Number]; p != nil {
			p.Closed, p.Ended, p.ClosedBy, p.Updated = true, time.Now(), "disinto", time.Now()
			f.wrote("close %s", ref.Short())
			return nil
		}
		if err := f.keptOpenLocked(f.issues[ref.Number]); err != nil {
			return err
		}
		f.closeLocked(f.issues[ref.Number])
		f.wrote("close %s", ref.Short())
		return nil
	})
}

func (f *Forge) closeLocked(is *forge.Issue) {
	is.Closed, is.Updated, is.Ended = true, time.Now(), time.Now()
}

// Merge merges a pull request, and closes its issues.
func (f *Forge) Merge(ctx context.Context, ref forge.Ref, headSHA, base string) error {
	return f.call(ctx, "merge", func() error {
		p := f.pulls[ref.Number]
		switch {
		case p.Merged:
			return nil
		case p.Closed, p.HeadSHA != headSHA, p.Base != base, p.Draft, p.Mergeable != forge.MergeClean:
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

// WhoAmI returns the login of a token in Tokens.
func (f *Forge) WhoAmI(ctx context.Context, token string) (login string, err error) {
	err = f.call(ctx, "whoami", func() error {
		if login = f.Tokens[token]; login == "" {
			return fmt.Errorf("token: %w", forge.ErrForbidden)
		}
		return nil
	})
	return login, err
}

// MayWork allows every account that has a token.
func (f *Forge) MayWork(ctx context.Context, token, _ string) error {
	return f.call(ctx, "maywork", func() error {
		if f.Tokens[token] == "" {
			return fmt.Errorf("token: %w", forge.ErrForbidden)
		}
		return nil
	})
}

// Requests returns the number of calls so far.
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

// with and without return new lists: facts that were handed out must not change.
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
