package forgejo

import (
	"context"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// This file has the requests that more than one place makes through the SDK.

// repository reads a repository's settings.
func (c *connection) repository(ctx context.Context, repo string) (*gitea.Repository, *exchange, error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetRepo(owner, name)
	return in, x, x.end(err)
}

// issue reads an issue or pull request.
func (c *connection) issue(ctx context.Context, ref forge.Ref) (*gitea.Issue, *exchange, error) {
	owner, name := owner(ref.Repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetIssue(owner, name, ref.Number)
	return in, x, x.end(err)
}

// editIssue changes what the form sets, and returns the changed issue.
func (c *connection) editIssue(ctx context.Context, ref forge.Ref, form gitea.EditIssueOption) (*gitea.Issue, error) {
	owner, name := owner(ref.Repo)
	g, x := c.sdk(ctx)
	in, _, err := g.EditIssue(owner, name, ref.Number, form)
	err = x.end(err)
	return in, err
}

// removeLabel removes one label from an issue.
func (c *connection) removeLabel(ctx context.Context, ref forge.Ref, id int64) error {
	owner, name := owner(ref.Repo)
	g, x := c.sdk(ctx)
	_, err := g.DeleteIssueLabel(owner, name, ref.Number, id)
	return x.wrote(err)
}

// comment adds a comment to an issue or pull request.
func (c *connection) comment(ctx context.Context, ref forge.Ref, body string) error {
	owner, name := owner(ref.Repo)
	g, x := c.sdk(ctx)
	_, _, err := g.CreateIssueComment(owner, name, ref.Number, gitea.CreateIssueCommentOption{Body: body})
	return x.wrote(err)
}

// pull reads a pull request.
func (c *connection) pull(ctx context.Context, ref forge.Ref) (*gitea.PullRequest, *exchange, error) {
	owner, name := owner(ref.Repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetPullRequest(owner, name, ref.Number)
	return in, x, x.end(err)
}

// issues lists a repository's issues and pull requests. The zero option lists the open ones.
func (c *connection) issues(repo string, o gitea.ListIssueOption) list[gitea.Issue] {
	owner, name := owner(repo)
	l := newList(c, issueID, func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.Issue, *gitea.Response, error) {
		o := o // pages are read concurrently
		o.ListOptions = page
		return g.ListRepoIssues(owner, name, o)
	})
	l.slim, l.number = slimIssue, issueNumber
	return l
}

// changes lists all issues and pull requests, open or closed, that changed since a time.
func (c *connection) changes(repo string, since time.Time) list[gitea.Issue] {
	return c.issues(repo, gitea.ListIssueOption{State: gitea.StateAll, Since: since})
}

// dependencies lists what an issue waits for.
func (c *connection) dependencies(ref forge.Ref) list[gitea.Issue] {
	owner, name := owner(ref.Repo)
	l := newList(c, issueID, func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.Issue, *gitea.Response, error) {
		return g.ListIssueDependencies(owner, name, ref.Number, gitea.ListIssueDependenciesOptions{ListOptions: page})
	})
	l.slim, l.number = slimIssue, issueNumber
	return l
}

// comments lists the comments on an issue or pull request that were written or edited since a time, the oldest first.
// Forgejo does not page this list: it always answers with all of it.
func (c *connection) comments(ref forge.Ref, since time.Time) list[gitea.Comment] {
	owner, name := owner(ref.Repo)
	return newList(c, commentID, func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.Comment, *gitea.Response, error) {
		return g.ListIssueComments(owner, name, ref.Number, gitea.ListIssueCommentOptions{ListOptions: page, Since: since})
	})
}

// allComments is comments for all issues and pull requests of a repository. It is paged.
func (c *connection) allComments(repo string, since time.Time) list[gitea.Comment] {
	owner, name := owner(repo)
	return newList(c, commentID, func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.Comment, *gitea.Response, error) {
		return g.ListRepoIssueComments(owner, name, gitea.ListIssueCommentOptions{ListOptions: page, Since: since})
	})
}

// pulls lists pull requests in an order that the forge knows by a name; "" is the newest first.
func (c *connection) pulls(repo string, state gitea.StateType, order string) list[gitea.PullRequest] {
	owner, name := owner(repo)
	id := func(in *gitea.PullRequest) int64 { return in.ID }
	l := newList(c, id, func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.PullRequest, *gitea.Response, error) {
		return g.ListRepoPullRequests(owner, name,
			gitea.ListPullRequestsOptions{ListOptions: page, State: state, Sort: order})
	})
	l.number = func(in *gitea.PullRequest) int64 { return in.Index }
	return l
}

// reviews lists the reviews of a pull request, also those that are not submitted.
func (c *connection) reviews(ref forge.Ref) list[gitea.PullReview] {
	owner, name := owner(ref.Repo)
	id := func(in *gitea.PullReview) int64 { return in.ID }
	return newList(c, id, func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.PullReview, *gitea.Response, error) {
		return g.ListPullReviews(owner, name, ref.Number, gitea.ListPullReviewsOptions{ListOptions: page})
	})
}

func issueID(in *gitea.Issue) int64 { return in.ID }

func issueNumber(in *gitea.Issue) int64 { return in.Index }

func commentID(in *gitea.Comment) int64 { return in.ID }
