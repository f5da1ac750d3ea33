package session

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// implement answers an issue with a pull request.
func (s *session) implement(ctx context.Context) (agents.Outcome, error) {
	is, err := s.Desk.Issue(ctx, s.ref())
	if err != nil {
		return agents.Outcome{}, err
	}
	remarks, err := s.comments(ctx)
	if err != nil {
		return agents.Outcome{}, err
	}
	base, err := s.base(ctx)
	if err != nil {
		return agents.Outcome{}, err
	}
	if err := s.tree.fetch(ctx); err != nil {
		return agents.Outcome{}, err
	}
	branch, at, err := s.issueBranch(ctx, base)
	if err != nil {
		return agents.Outcome{}, err
	}
	continues, err := s.enter(ctx, branch, at)
	if err != nil {
		return agents.Outcome{}, err
	}
	d := &promptData{
		Base: base, Branch: branch, Title: quoted(is.Title), Body: quoted(cut(is.Body, maxBody)), Author: is.Author,
		Comments: remarks, Continues: continues,
	}
	said, err := s.develop(ctx, d, "origin/"+base)
	if err != nil {
		return agents.Outcome{}, err
	}
	title := firstOf(said.Title, firstWords(is.Title))
	if err := s.publish(ctx, branch, "origin/"+base, title); err != nil {
		return agents.Outcome{}, err
	}
	body := joined(said.Summary, fmt.Sprintf("Fixes #%d", s.Number), "created by "+s.Agent)
	pull, err := s.Desk.OpenPull(ctx, forge.PullDraft{Repo: s.Repo, Head: branch, Base: base, Title: title, Body: body})
	if err != nil {
		return agents.Outcome{}, err
	}
	return agents.Outcome{Result: agents.Done, Reason: fmt.Sprintf("opened #%d", pull)}, nil
}

// issueBranch is the branch for the issue and the commit to begin at: fix/issue-N from the default branch; what was pushed
// there before and has a pull request that is open, or none yet, is gone on with. After a pull request that ended comes
// fix/issue-N-2.
func (s *session) issueBranch(ctx context.Context, base string) (branch, at string, err error) {
	for k := 1; ; k++ {
		branch = fmt.Sprintf("fix/issue-%d", s.Number)
		if k > 1 {
			branch += fmt.Sprintf("-%d", k)
		}
		pulls, err := s.Desk.PullsFrom(ctx, s.Repo, branch)
		if err != nil {
			return "", "", err
		}
		over := slices.ContainsFunc(pulls, func(p forge.Pull) bool { return p.Closed })
		switch pushed := "refs/remotes/origin/" + branch; {
		case over:
		case s.tree.has(ctx, pushed):
			return branch, pushed, nil
		default:
			return branch, "refs/remotes/origin/" + base, nil
		}
	}
}

// rework answers a review, failing checks or a conflict with further commits.
func (s *session) rework(ctx context.Context) (agents.Outcome, error) {
	p, err := s.pull(ctx)
	if err != nil {
		return agents.Outcome{}, err
	}
	if p.HeadRepo != "" && !strings.EqualFold(p.HeadRepo, s.Repo) {
		return agents.Outcome{}, fmt.Errorf("the pull request comes from %s, where %s does not push", p.HeadRepo, s.Agent)
	}
	if err := s.tree.fetch(ctx); err != nil {
		return agents.Outcome{}, err
	}
	d, err := s.pullPrompt(ctx, &p)
	if err != nil {
		return agents.Outcome{}, err
	}
	if d.Checks, err = s.checks(ctx, p.HeadSHA); err != nil {
		return agents.Outcome{}, err
	}
	d.Branch, d.Conflict = p.Head, p.Mergeable == forge.MergeNotClean
	head := "refs/remotes/origin/" + p.Head
	if d.Continues, err = s.enter(ctx, p.Head, head); err != nil {
		return agents.Outcome{}, err
	}
	said, err := s.develop(ctx, d, head)
	if err != nil {
		return agents.Outcome{}, err
	}
	if err := s.publish(ctx, p.Head, head, firstOf(said.Title, "Answer the review")); err != nil {
		return agents.Outcome{}, err
	}
	if said.Summary != "" {
		err = s.Desk.Comment(ctx, s.ref(), joined(said.Summary, "created by "+s.Agent))
	}
	return agents.Outcome{Result: agents.Done}, err
}

// pullPrompt is what a prompt about a pull request says, whoever it is for.
func (s *session) pullPrompt(ctx context.Context, p *forge.Pull) (*promptData, error) {
	remarks, err := s.comments(ctx)
	if err != nil {
		return nil, err
	}
	reviews, err := s.reviews(ctx)
	if err != nil {
		return nil, err
	}
	return &promptData{
		Base: p.Base, Title: quoted(p.Title), Body: quoted(cut(p.Body, maxBody)), Author: p.Author,
		Comments: remarks, Reviews: reviews, Issues: s.issuesOf(ctx, p),
	}, nil
}

// errand is a role's own job. What it commits becomes a pull request; most commit nothing.
func (s *session) errand(ctx context.Context) (agents.Outcome, error) {
	base, err := s.base(ctx)
	if err != nil {
		return agents.Outcome{}, err
	}
	if err := s.tree.fetch(ctx); err != nil {
		return agents.Outcome{}, err
	}
	branch, at := s.Role+"/"+s.RunID, "refs/remotes/origin/"+base
	if _, err := s.enter(ctx, branch, at); err != nil {
		return agents.Outcome{}, err
	}
	said, err := s.converse(ctx, &promptData{Base: base, Branch: branch})
	if err != nil {
		return agents.Outcome{}, err
	}
	out := agents.Outcome{Result: agents.Done, Reason: firstWords(said.Summary)}
	title := firstOf(said.Title, fmt.Sprintf("%s: %s", s.Role, firstOf(firstWords(said.Summary), "regular round")))
	if err := s.tree.commitAll(ctx, title); err != nil {
		return out, err
	}
	if n, err := s.tree.commits(ctx, at); err != nil || n == 0 {
		return out, err
	}
	if err := s.tree.push(ctx, branch, ""); err != nil {
		return out, err
	}
	pull, err := s.Desk.OpenPull(ctx, forge.PullDraft{
		Repo: s.Repo, Head: branch, Base: base, Title: title, Body: joined(said.Summary, "created by "+s.Agent),
	})
	out.Reason = fmt.Sprintf("opened #%d", pull)
	return out, err
}

// enter puts the worktree on a branch. What an interrupted session left is gone on with, unless the branch has moved on;
// what any other one left is saved first.
func (s *session) enter(ctx context.Context, branch, at string) (continues bool, err error) {
	saved, err := s.tree.save(ctx, "left by an earlier session")
	if err != nil {
		return false, err
	}
	if saved != "" {
		s.logf("saved what an earlier session left as %s", saved)
	}
	if s.keep.Interrupted && s.tree.stands(ctx, branch, at) {
		s.logf("going on where an interrupted session stopped")
		return true, s.tree.begin(ctx)
	}
	return false, s.tree.checkout(ctx, branch, at)
}

// develop lets the CLI work, and sees to it that there is something to publish. since is what the branch was before.
func (s *session) develop(ctx context.Context, d *promptData, since string) (answer, error) {
	said, err := s.converse(ctx, d)
	if err != nil {
		return said, err
	}
	if said.Refused != "" {
		return said, &ended{agents.Outcome{Result: agents.Refused, Reason: said.Refused}}
	}
	idle, err := s.idle(ctx, since)
	if err != nil || !idle {
		return said, err
	}
	r, err := s.nudge(ctx, "Nothing in the repository has changed. Make the change now, and commit it with git.")
	if err != nil {
		return said, err
	}
	if idle, err = s.idle(ctx, since); err != nil || !idle {
		return s.answer(), err
	}
	return said, &ended{agents.Outcome{Result: agents.NoProgress, Reason: "no commits" + prefixed("; it said last: ", firstWords(r.Words))}}
}

// idle reports whether there is nothing to publish.
func (s *session) idle(ctx context.Context, since string) (bool, error) {
	dirty, err := s.tree.dirty(ctx)
	if err != nil || dirty {
		return false, err
	}
	n, err := s.tree.commits(ctx, since)
	return n == 0, err
}

// converse runs the CLI with the prompt of the role and reads its answer.
func (s *session) converse(ctx context.Context, d *promptData) (answer, error) {
	_ = os.Remove(s.answerPath())
	prompt, err := s.prompt(ctx, d)
	if err != nil {
		return answer{}, err
	}
	_, err = s.ask(ctx, prompt)
	return s.answer(), err
}

func (s *session) answer() answer {
	text, err := os.ReadFile(s.answerPath())
	if err != nil {
		return answer{}
	}
	return parseAnswer(text)
}

// publish commits what is left and pushes the branch. It must still be where it was when the session fetched.
func (s *session) publish(ctx context.Context, branch, since, message string) error {
	if err := s.tree.commitAll(ctx, message); err != nil {
		return err
	}
	expected := ""
	if remote := "refs/remotes/origin/" + branch; s.tree.has(ctx, remote) {
		sha, err := s.tree.in(ctx, "rev-parse", remote)
		if err != nil {
			return err
		}
		expected = sha
	}
	if n, err := s.tree.commits(ctx, since); err == nil {
		s.logf("pushing %s, %d commits more than %s", branch, n, strings.TrimPrefix(since, "refs/remotes/"))
	}
	return s.tree.push(ctx, branch, expected)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// joined is paragraphs, the empty ones left out.
func joined(paragraphs ...string) string {
	var all []string
	for _, p := range paragraphs {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, "\n\n")
}
