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

// Desk is the forge as one session uses it, with the account of the session's agent.
//
// Every method asks the forge anew and returns when ctx is done. A session calls the methods from one goroutine, one
// after the other. Errors wrap forge.ErrNotFound and forge.ErrForbidden where they apply, and forge.ErrUnavailable
// where a later try may succeed: the session then ends as backend-down, which burns no attempt. No error contains the
// token. Reads may be repeated. Strangers wrote much of what they return: the session checks the names in it and quotes
// the texts.
type Desk interface {
	Items
	Pulls
	Reviews
	Checks
	Repositories
	Profiles
}

// Items are issues and pull requests with the comments below them.
type Items interface {
	// Issue returns an issue with its number, title, body, author and labels; the other fields may be zero.
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	// Comments returns all comments below an item, each once, oldest first.
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	// Comment adds a comment below an item. It must not be repeated: that would add another one.
	Comment(ctx context.Context, ref forge.Ref, body string) error
}

// Pulls are pull requests with the branches that they are from.
type Pulls interface {
	// Pull returns a pull request with its number, title, body, author, Base, Head, HeadRepo, HeadSHA, Closed, Mergeable
	// and Closes; the other fields may be zero.
	Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error)
	// PullsFrom returns the pull requests, open or ended, whose head is this branch of repo, not of a fork. It may leave
	// out those that did not change for weeks. A branch without one is no error.
	PullsFrom(ctx context.Context, repo, branch string) ([]forge.Pull, error)
	// OpenPull opens a pull request and returns its number. If the branch has an open one already, it changes nothing and
	// returns the number of that one, so it may be repeated.
	OpenPull(ctx context.Context, p forge.PullDraft) (number int64, err error)
}

// Reviews are the formal reviews of a pull request.
type Reviews interface {
	// Reviews returns the submitted reviews without dismissed ones, oldest first, each with its comments on lines, which
	// may be of other accounts than the review.
	Reviews(ctx context.Context, pull forge.Ref) ([]forge.FullReview, error)
	// PostReview submits a review with the Verdict, CommitSHA, Body and Lines of r. The forge refuses comments on lines
	// that the pull request does not show. It must not be repeated: that would submit another one.
	PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error
}

// Checks are the reports of CI on a commit.
type Checks interface {
	// Checks returns the failed checks of a commit, sorted by name, each as it was reported last.
	Checks(ctx context.Context, repo, sha string) ([]forge.Check, error)
	// CheckLog returns the whole log of a check, and "" without an error where the forge does not keep it. It asks only
	// the forge, whatever host the check's URL names.
	CheckLog(ctx context.Context, repo string, c forge.Check) (string, error)
}

// Repositories are read without a clone, at their default branch.
type Repositories interface {
	// Writers returns the logins of the accounts that may write to a repository, in any order.
	Writers(ctx context.Context, repo string) ([]string, error)
	// Repository returns a repository with its name and default branch, and forge.ErrNotFound where the account sees none.
	Repository(ctx context.Context, name string) (forge.Repository, error)
	// File returns the text of a file, and forge.ErrNotFound if it is not there.
	File(ctx context.Context, repo, path string) (string, error)
	// Folder returns the names of the files in a folder, sorted, and forge.ErrNotFound if it is not there.
	Folder(ctx context.Context, repo, path string) ([]string, error)
}

// Profiles are the agents' own repositories.
type Profiles interface {
	// Login returns the name of the agent's account.
	Login(ctx context.Context) (string, error)
	// Edit changes files of the default branch in one commit, all or none. It must not be repeated with an Edit that
	// appends.
	Edit(ctx context.Context, repo, message string, edits []forge.Edit) error
}

// base is the repository's default branch.
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
	if !branchLike(p.Head) || !wordLike(p.Base) || !hexLike(p.HeadSHA) {
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

// wordLike reports whether a branch may stand in a prompt outside of fences, and in a command that the prompt proposes:
// it has no character that ends a code span or means something to a shell.
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
			continue // see dialogue
		}
		if strings.TrimSpace(c.Body) != "" && r.readers.hears(c.Author, "comment") && len(all) < maxRemarks {
			all = append(all, remark{account(c.Author), quoted(cut(c.Body, maxRemark))})
		}
	}
	return all, err
}

// dialogue are the comments that the session is about.
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

// account is a login as it stands outside of fences: a forge's are of letters, digits, and a few signs.
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
		if is, err := r.Desk.Issue(ctx, ref); err == nil && r.readers.vouched(&is) {
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

// verdictWords are the verdicts as prompts name them: as Forgejo does.
var verdictWords = map[forge.Verdict]string{
	forge.Approved: "APPROVED", forge.ChangesRequested: "REQUEST_CHANGES", forge.Commented: "COMMENT",
}

func (r *run) reviews(ctx context.Context, pull forge.Ref) ([]reviewText, error) {
	reviews, err := r.Desk.Reviews(ctx, pull)
	var all []reviewText
	for _, one := range reviews {
		if !r.readers.hears(one.Author, "review") {
			continue
		}
		text := reviewText{
			Author: account(one.Author), State: verdictWords[one.Verdict], Body: quoted(cut(one.Body, maxRemark)),
		}
		for _, c := range one.Lines {
			if !r.readers.hears(c.Author, "comment") {
				continue
			}
			text.Inline = append(text.Inline, inlineText{quoted(firstWords(c.Path)), c.Line, quoted(cut(c.Body, maxRemark))})
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
			Name: quoted(firstWords(c.Name)), State: c.State, URL: quoted(firstWords(c.URL)),
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
