package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// review gives a verdict on a pull request, for exactly the head that was read.
func (s *session) review(ctx context.Context) (agents.Outcome, error) {
	p, err := s.pull(ctx)
	if err != nil {
		return agents.Outcome{}, err
	}
	d, err := s.pullPrompt(ctx, &p)
	if err != nil {
		return agents.Outcome{}, err
	}
	if err := s.readHead(ctx, &p); err != nil {
		return agents.Outcome{}, err
	}
	diff, err := s.tree.in(ctx, "diff", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", "refs/remotes/origin/"+p.Base+"..."+p.HeadSHA)
	if err != nil {
		return agents.Outcome{}, err
	}
	d.Diff = quoted(cut(diff, maxDiff))
	v, err := s.judge(ctx, d)
	if err != nil {
		return agents.Outcome{}, err
	}
	on, summary := v.place(diffLines(diff))
	r := forge.FullReview{Review: forge.Review{
		Verdict: forge.ChangesRequested, CommitSHA: p.HeadSHA, Body: joined(summary, "reviewed by "+s.Agent),
	}, Lines: on}
	reason := "asked for changes"
	if v.Approve {
		r.Verdict, reason = forge.Approved, "approved"
	}
	if err := s.Desk.PostReview(ctx, s.ref(), &r); err != nil {
		return agents.Outcome{}, err
	}
	return agents.Outcome{Result: agents.Done, Reason: reason}, nil
}

// readHead puts the worktree on the pull request's head, which for a fork only the forge's own ref has.
func (s *session) readHead(ctx context.Context, p *forge.Pull) error {
	if err := s.tree.fetch(ctx); err != nil {
		return err
	}
	if !s.tree.has(ctx, p.HeadSHA) {
		if err := s.tree.fetch(ctx, fmt.Sprintf("+refs/pull/%d/head:refs/remotes/origin/pull/%d", s.Number, s.Number)); err != nil {
			return err
		}
	}
	s.keep.Interrupted = false // a review begins anew
	_, err := s.enter(ctx, "", p.HeadSHA)
	return err
}

// judge lets the CLI review, and reads the verdict that it has to write. One that is missing or cannot be read is asked
// for once more; after that the review has failed, whatever the CLI said.
func (s *session) judge(ctx context.Context, d *promptData) (*verdict, error) {
	_ = os.Remove(s.verdictPath())
	prompt, err := s.prompt(ctx, d)
	if err != nil {
		return nil, err
	}
	if _, err := s.ask(ctx, prompt); err != nil {
		return nil, err
	}
	v, err := s.verdict()
	if err == nil {
		return v, nil
	}
	words := fmt.Sprintf("Your review does not count yet: %v. Write the file %s now, with the JSON that was asked for.", err, s.verdictPath())
	if _, err := s.nudge(ctx, words); err != nil {
		return nil, err
	}
	if v, err = s.verdict(); err != nil {
		return nil, &ended{agents.Outcome{Result: agents.Failed, Reason: err.Error()}}
	}
	return v, nil
}

func (s *session) verdict() (*verdict, error) {
	text, err := os.ReadFile(s.verdictPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it wrote no verdict")
	}
	if err != nil {
		return nil, err
	}
	return parseVerdict(text)
}
