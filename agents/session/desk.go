package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Desk is the forge as one session uses it, with the account of the session's agent.
//
// Every method asks the forge anew and ends when ctx does. A session calls them from one goroutine, one after the
// other. Their errors wrap forge.ErrUnavailable where trying again later is right (the session then ends as
// backend-down, and costs its item no attempt), forge.ErrForbidden, and forge.ErrNotFound; none contains the token.
// What they return is text of strangers: the session itself checks names and quotes texts. Readings may be repeated at
// will.
type Desk interface {
	Items
	Pulls
	Reviews
	Checks
	Repositories
	Profiles
}

// Items are issues and pull requests, as what people and agents talk below.
type Items interface {
	// Issue returns number, title, body and author of an issue; the rest may be empty.
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	// Comments returns all comments below an item, each once, oldest first.
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	// Comment writes below an item. Repeated, it may write twice: a session calls it once.
	Comment(ctx context.Context, ref forge.Ref, body string) error
}

// Pulls are pull requests, as changes of a repository.
type Pulls interface {
	// Pull returns a pull request without reviews and checks: texts, author, base, head and its repository, the head's
	// commit, whether it is closed, whether it merges, and the issues that it is for.
	Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error)
	// PullsFrom returns the pull requests whose head is this branch of repo itself, open or ended: at least those of the
	// last weeks. No such pull request is no error.
	PullsFrom(ctx context.Context, repo, branch string) ([]forge.Pull, error)
	// OpenPull opens a pull request and returns its number. When its branch has an open one already, it changes nothing
	// and returns that one's number, so it may be repeated.
	OpenPull(ctx context.Context, p forge.PullDraft) (number int64, err error)
}

// Reviews are the formal reviews of a pull request.
type Reviews interface {
	// Reviews returns those that are submitted and not dismissed, oldest first, each with its comments on lines.
	Reviews(ctx context.Context, pull forge.Ref) ([]forge.FullReview, error)
	// PostReview submits a review: its Verdict on its CommitSHA, Body and Lines. The forge refuses lines that the pull
	// request does not show. Repeated, it may submit two: a session calls it once.
	PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error
}

// Checks are what CI reports on a commit.
type Checks interface {
	// Checks returns those that failed, sorted by name, each with its last report.
	Checks(ctx context.Context, repo, sha string) ([]forge.Check, error)
	// CheckLog returns all that a check printed, and "" without an error where the forge does not keep its log. It asks no
	// other host than the forge, whatever the check's URL says.
	CheckLog(ctx context.Context, repo string, c forge.Check) (string, error)
}

// Repositories are read without a clone, at their default branch.
type Repositories interface {
	// Repository returns name and default branch; forge.ErrNotFound where the account sees none.
	Repository(ctx context.Context, name string) (forge.Repository, error)
	// File returns the text of a file; forge.ErrNotFound when it is not there.
	File(ctx context.Context, repo, path string) (string, error)
	// Folder returns the names of the files in a folder, sorted; forge.ErrNotFound when it is not there.
	Folder(ctx context.Context, repo, path string) ([]string, error)
}

// Profiles are the agents' own repositories.
type Profiles interface {
	// Login returns the name of the agent's account.
	Login(ctx context.Context) (string, error)
	// Edit changes files of the default branch in one commit, all or none. Repeated, it appends again.
	Edit(ctx context.Context, repo, message string, edits []forge.Edit) error
}

// base is the repository's default branch.
func (r *run) base(ctx context.Context) (string, error) {
	repo, err := r.Desk.Repository(ctx, r.Repo)
	if err != nil {
		return "", err
	}
	if !branchLike(repo.Branch) {
		return "", fmt.Errorf("cannot work on a repository whose default branch is %q", repo.Branch)
	}
	return repo.Branch, nil
}

func (r *run) pull(ctx context.Context) (forge.Pull, error) {
	p, err := r.Desk.Pull(ctx, r.ref())
	if err != nil {
		return p, err
	}
	if !branchLike(p.Head) || !branchLike(p.Base) || !hexLike(p.HeadSHA) {
		return p, fmt.Errorf("cannot work on pull request #%d from %q to %q at %q", r.Number, p.Head, p.Base, p.HeadSHA)
	}
	return p, nil
}

// branchLike keeps what the forge calls a branch from being an option of git, or another kind of ref.
func branchLike(name string) bool {
	odd := func(r rune) bool { return r <= ' ' || strings.ContainsRune(`~^:?*[\`, r) || r == 0x7f }
	return name != "" && name[0] != '-' && !strings.ContainsFunc(name, odd) &&
		!strings.Contains(name, "..") && !strings.Contains(name, "@{")
}

func hexLike(sha string) bool {
	return len(sha) >= 40 && strings.Trim(sha, "0123456789abcdef") == ""
}

func (r *run) comments(ctx context.Context) ([]remark, error) {
	comments, err := r.Desk.Comments(ctx, r.ref())
	var all []remark
	for _, c := range comments[:min(len(comments), maxRemarks)] {
		if strings.TrimSpace(c.Body) != "" {
			all = append(all, remark{c.Author, quoted(cut(c.Body, maxRemark))})
		}
	}
	return all, err
}

// maxRemarks is how many comments a prompt repeats, the oldest: a model reads no more either.
const maxRemarks = 150

// Bytes of one text in a prompt. A longer one is a log that was pasted.
const (
	maxBody   = 40 << 10
	maxRemark = 8 << 10
	maxDiff   = 120 << 10
	maxLog    = 8 << 10 // the end of a log: about 100 lines
)

// issuesOf are the issues of this repository that a pull request is for. One that cannot be read is left out: the
// session works without it.
func (r *run) issuesOf(ctx context.Context, p *forge.Pull) (all []issueText) {
	for _, ref := range p.Closes {
		if ref.Repo != r.Repo {
			continue
		}
		if is, err := r.Desk.Issue(ctx, ref); err == nil {
			all = append(all, issueText{is.Number, quoted(is.Title), quoted(cut(is.Body, maxBody))})
		}
	}
	return all
}

// verdictWords are the verdicts as prompts name them: as Forgejo does.
var verdictWords = map[forge.Verdict]string{
	forge.Approved: "APPROVED", forge.ChangesRequested: "REQUEST_CHANGES", forge.Commented: "COMMENT",
}

func (r *run) reviews(ctx context.Context) ([]reviewText, error) {
	reviews, err := r.Desk.Reviews(ctx, r.ref())
	var all []reviewText
	for _, one := range reviews {
		text := reviewText{Author: one.Author, State: verdictWords[one.Verdict], Body: quoted(cut(one.Body, maxRemark))}
		for _, c := range one.Lines {
			text.Inline = append(text.Inline, inlineText{firstWords(c.Path), c.Line, quoted(cut(c.Body, maxRemark))})
		}
		all = append(all, text)
	}
	return all, err
}

// checks are the failed checks of a commit, each with the end of its log. Without its log the agent still has the link.
func (r *run) checks(ctx context.Context, sha string) ([]check, error) {
	failed, err := r.Desk.Checks(ctx, r.Repo, sha)
	var all []check
	for _, c := range failed {
		text, err := r.Desk.CheckLog(ctx, r.Repo, c)
		if err != nil {
			r.logf("cannot read the log of a check: %v", err)
		}
		all = append(all, check{
			Name: firstWords(c.Name), State: c.State, URL: firstWords(c.URL),
			Words: quoted(cut(c.Text, maxRemark)), Log: quoted(cutFront(text, maxLog)),
		})
	}
	return all, err
}

// file reads a file of a repository's default branch. One that is not there is empty.
func (r *run) file(ctx context.Context, repo, path string) (string, error) {
	text, err := r.Desk.File(ctx, repo, path)
	if errors.Is(err, forge.ErrNotFound) {
		err = nil
	}
	return text, err
}
