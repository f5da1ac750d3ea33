package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Desk is one session's access to the forge, with the account of the session's agent.
//
// Every method queries the forge and returns when ctx is done. A session calls the methods from one goroutine, one at
// a time. Errors wrap forge.ErrNotFound and forge.ErrForbidden where they apply, and forge.ErrUnavailable if a retry
// may succeed: the session then ends as backend-down, which does not count as an attempt. No error contains the
// token. Reads can be repeated. Much of what they return was written by strangers: the session checks names and
// quotes texts.
type Desk interface {
	Items
	Pulls
	Reviews
	Checks
	Repositories
	Profiles
}

// Items gives access to issues and pull requests with their comments.
type Items interface {
	// Issue returns an issue with its number, title, body, author and labels; the other fields may be zero.
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	// Comments returns all comments on an item, each once, oldest first.
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	// Comment adds a comment to an item. Do not repeat it: that would add another comment.
	Comment(ctx context.Context, ref forge.Ref, body string) error
}

// Pulls gives access to pull requests with their source branches.
type Pulls interface {
	// Pull returns a pull request with its number, title, body, author, Base, Head, HeadRepo, HeadSHA, Closed, Mergeable
	// and Closes; the other fields may be zero.
	Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error)
	// PullsFrom returns the pull requests, open or closed, whose head is this branch of repo, not of a fork. It may
	// omit those that have not changed for weeks. A branch without pull requests is not an error.
	PullsFrom(ctx context.Context, repo, branch string) ([]forge.Pull, error)
	// OpenPull opens a pull request and returns its number. If the branch already has an open one, it changes nothing
	// and returns that number, so it can be repeated.
	OpenPull(ctx context.Context, p forge.PullDraft) (number int64, err error)
}

// Reviews gives access to the formal reviews of a pull request.
type Reviews interface {
	// Reviews returns the submitted reviews without dismissed ones, oldest first, each with its comments on lines,
	// whose authors may differ from the review's.
	Reviews(ctx context.Context, pull forge.Ref) ([]forge.FullReview, error)
	// PostReview submits a review with the Verdict, CommitSHA, Body and Lines of r. The forge refuses comments on lines
	// that the pull request does not show. Do not repeat it: that would submit another review.
	PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error
}

// Checks gives access to CI's reports on a commit.
type Checks interface {
	// Checks returns the failed checks of a commit, sorted by name, each in its latest state.
	Checks(ctx context.Context, repo, sha string) ([]forge.Check, error)
	// CheckLog returns the whole log of a check, and "" without an error if the forge does not store it. It queries
	// only the forge, whatever host the check's URL names.
	CheckLog(ctx context.Context, repo string, c forge.Check) (string, error)
}

// Repositories reads repositories without a clone, on their default branch.
type Repositories interface {
	// Writers returns the logins of the accounts with write access to a repository, in any order.
	Writers(ctx context.Context, repo string) ([]string, error)
	// Repository returns a repository with its name and default branch, and forge.ErrNotFound if the account cannot see
	// it.
	Repository(ctx context.Context, name string) (forge.Repository, error)
	// File returns the text of a file, and forge.ErrNotFound if it does not exist.
	File(ctx context.Context, repo, path string) (string, error)
	// Folder returns the names of the files in a folder, sorted, and forge.ErrNotFound if it does not exist.
	Folder(ctx context.Context, repo, path string) ([]string, error)
	// MissingFiles returns those of some large files that Git LFS does not store for a repository, in order.
	MissingFiles(ctx context.Context, repo string, files []forge.LargeFile) ([]forge.LargeFile, error)
}

// Profiles gives access to the agents' own repositories.
type Profiles interface {
	// Login returns the name of the agent's account.
	Login(ctx context.Context) (string, error)
	// Edit changes files of the default branch in one commit, all or none. Do not repeat an Edit that appends.
	Edit(ctx context.Context, repo, message string, edits []forge.Edit) error
}

// base returns the repository's default branch.
func (r *run) base(ctx context.Context) (string, error) {
	repo, err := r.Desk.Repository(ctx, r.Repo)
	if err != nil {
		return "", err
	}
	if !wordLike(repo.Branch) {
		return "", fmt.Errorf("cannot work on a repository whose default branch is %q", repo.Branch)
	}
	return repo.Branch, nil
}

func (r *run) pull(ctx context.Context) (forge.Pull, error) {
	p, err := r.Desk.Pull(ctx, r.ref())
	if err != nil {
		return p, err
	}
	r.post.own = p.Closes // the forge closes them at the merge anyway
	if !branchLike(p.Head) || !wordLike(p.Base) || !hexLike(p.HeadSHA) {
		return p, fmt.Errorf("cannot work on pull request #%d from %q to %q at %q", r.Number, p.Head, p.Base, p.HeadSHA)
	}
	return p, nil
}

// branchLike reports whether a branch name from the forge is safe for git: not an option, nor another kind of ref.
func branchLike(name string) bool {
	odd := func(r rune) bool { return r <= ' ' || strings.ContainsRune(`~^:?*[\`, r) || r == 0x7f }
	return name != "" && name[0] != '-' && !strings.ContainsFunc(name, odd) &&
		!strings.Contains(name, "..") && !strings.Contains(name, "@{")
}

// wordLike reports whether a branch name is safe in a prompt outside fences, and in a command that the prompt proposes:
// it has no character that ends a code span or is special in a shell.
func wordLike(branch string) bool {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./+#@=,%", r)
	}
	const most = 250 // bytes, as many as git can store
	return branchLike(branch) && len(branch) <= most && !strings.ContainsFunc(branch, odd)
}

func hexLike(sha string) bool { return len(sha) >= 40 && strings.Trim(sha, "0123456789abcdef") == "" }

func (r *run) comments(ctx context.Context) ([]remark, error) { return r.commentsOn(ctx, r.ref()) }

func (r *run) commentsOn(ctx context.Context, ref forge.Ref) ([]remark, error) {
	comments, err := r.Desk.Comments(ctx, ref)
	var all []remark
	for _, c := range comments {
		if slices.Contains(r.About, c.ID) || forge.IsForPeople(c.Body) {
			continue // dialogue returns these
		}
		if strings.TrimSpace(c.Body) != "" && r.readers.admits(c.Author, "comment") && len(all) < maxRemarks {
			all = append(all, remark{account(c.Author), quoted(cut(c.Body, maxRemark))})
		}
	}
	return all, err
}

// dialogue returns the comments to which the session responds.
func (r *run) dialogue(ctx context.Context) (all []remark, err error) {
	if len(r.About) == 0 {
		return nil, nil
	}
	comments, err := r.Desk.Comments(ctx, r.ref())
	for _, c := range comments {
		if slices.Contains(r.About, c.ID) {
			all = append(all, remark{account(c.Author), quoted(cut(c.Body, agents.MaxWords+maxRemark))})
		}
	}
	return all, err
}

// account returns a login as it may appear outside fences: a forge's logins have letters, digits, and a few signs.
func account(login string) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	const most = 100
	if login == "" || len(login) > most || strings.ContainsFunc(login, odd) {
		return "an unknown account"
	}
	return login
}

// maxRemarks is the number of comments in a prompt, beginning with the oldest: a model reads no more.
const maxRemarks = 150

// Maximum bytes of one text in a prompt. A longer text is a pasted log.
const (
	maxBody   = 40 << 10
	maxRemark = 8 << 10
	maxDiff   = 120 << 10 // of one part
	maxLog    = 8 << 10   // the end of a log: about 100 lines
)

// issuesOf returns the issues of this repository that a pull request closes. It omits an issue that cannot be read: the
// session works without it.
func (r *run) issuesOf(ctx context.Context, p *forge.Pull) (all []issueText) {
	for _, ref := range p.Closes {
		if ref.Repo != r.Repo {
			continue
		}
		if is, err := r.Desk.Issue(ctx, ref); err == nil && r.readers.admitsIssue(&is) {
			all = append(all, issueTextOf(&is))
		}
	}
	return all
}

func issueTextOf(is *forge.Issue) issueText {
	return issueText{
		Number: is.Number, Title: quoted(is.Title), Body: quoted(cut(is.Body, maxBody)), Author: account(is.Author),
	}
}

// verdictWords are the verdicts in prompts, which use Forgejo's terms.
var verdictWords = map[forge.Verdict]string{
	forge.Approved: "APPROVED", forge.ChangesRequested: "REQUEST_CHANGES", forge.Commented: "COMMENT",
}

func (r *run) reviews(ctx context.Context, pull forge.Ref) ([]reviewText, error) {
	reviews, err := r.Desk.Reviews(ctx, pull)
	var all []reviewText
	for _, one := range reviews {
		if !r.readers.admits(one.Author, "review") {
			continue
		}
		text := reviewText{
			Author: account(one.Author), State: verdictWords[one.Verdict], Body: quoted(cut(one.Body, maxRemark)),
		}
		for _, c := range one.Lines {
			if !r.readers.admits(c.Author, "comment") {
				continue
			}
			text.Inline = append(text.Inline, inlineText{quoted(firstWords(c.Path)), c.Line, quoted(cut(c.Body, maxRemark))})
		}
		all = append(all, text)
	}
	return all, err
}

// checks returns the failed checks of a commit, each with the end of its log. If the log cannot be read, the agent
// still has the link.
func (r *run) checks(ctx context.Context, sha string) ([]check, error) {
	failed, err := r.Desk.Checks(ctx, r.Repo, sha)
	var all []check
	for _, c := range failed {
		text, err := r.Desk.CheckLog(ctx, r.Repo, c)
		if err != nil {
			r.logf("cannot read the log of a check: %v", err)
		}
		all = append(all, check{
			Name: quoted(firstWords(c.Name)), State: c.State, URL: quoted(firstWords(c.URL)),
			Words: quoted(cut(c.Text, maxRemark)), Log: quoted(cutFront(text, maxLog)),
		})
	}
	return all, err
}

// file returns a file of a repository's default branch, and "" if it does not exist.
func (r *run) file(ctx context.Context, repo, path string) (string, error) {
	text, err := r.Desk.File(ctx, repo, path)
	if errors.Is(err, forge.ErrNotFound) {
		err = nil
	}
	return text, err
}
