package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9._:/-]+$`)

// Comment writes a comment once for each key. The comment contains a hidden mark. Comment first searches for that mark,
// but only in our own comments, because any account can write the same mark.
func (c *Client) Comment(ctx context.Context, ref forge.Ref, key, body string) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "comment on %s", ref)
	mark, err := markOf(key)
	if err != nil {
		return err
	}
	found, err := c.hasComment(ctx, ref, mark)
	if err != nil || found {
		return c.missing(ctx, ref, err)
	}
	return c.postComment(ctx, ref, body, mark)
}

// markOf returns the hidden mark of a key.
func markOf(key string) (string, error) {
	if !keyPattern.MatchString(key) || strings.Contains(key, "--") {
		return "", fmt.Errorf("internal error: key %q", key)
	}
	return "<!-- disinto:" + key + " -->", nil
}

func (c *Client) postComment(ctx context.Context, ref forge.Ref, body, mark string) error {
	return c.comment(ctx, ref, marked(body, mark))
}

// marked returns the whole text of a comment.
func marked(body, mark string) string { return body + "\n\n" + mark }

// SetComment writes a comment for a key, or updates the existing one, even if another account with write access has
// edited it.
func (c *Client) SetComment(ctx context.Context, ref forge.Ref, key, body string) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "comment on %s", ref)
	mark, err := markOf(key)
	if err != nil {
		return err
	}
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	all, _, err := c.comments(ref, time.Time{}).all(ctx)
	if err != nil {
		return c.missing(ctx, ref, err)
	}
	owner, name := owner(ref.Repo)
	for _, one := range all {
		if one == nil || loginOf(one.Poster) != me || !strings.Contains(one.Body, mark) {
			continue
		}
		if one.Body == marked(body, mark) {
			return nil
		}
		g, x := c.sdk(ctx)
		_, _, err := g.EditIssueComment(owner, name, one.ID, gitea.EditIssueCommentOption{Body: marked(body, mark)})
		return x.wrote(err)
	}
	return c.postComment(ctx, ref, body, mark)
}

// missing corrects the error of a request for the comments on an issue: Forgejo answers 500 for an issue that does not
// exist.
func (c *Client) missing(ctx context.Context, ref forge.Ref, err error) error {
	if statusOf(err) == http.StatusInternalServerError {
		if _, gone := c.getIssue(ctx, ref); errors.Is(gone, forge.ErrNotFound) {
			return gone
		}
	}
	return err
}

func (c *Client) hasComment(ctx context.Context, ref forge.Ref, mark string) (bool, error) {
	me, err := c.me(ctx)
	if err != nil {
		return false, err
	}
	all, _, err := c.comments(ref, time.Time{}).all(ctx)
	if err != nil {
		return false, err
	}
	for _, one := range all {
		if one != nil && loginOf(one.Poster) == me && !isEdited(one) && strings.Contains(one.Body, mark) {
			return true, nil
		}
	}
	return false, nil
}

// Close closes an issue and can be repeated. forge.ErrConflict means that the issue has open dependencies.
func (c *Client) Close(ctx context.Context, ref forge.Ref) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "close %s", ref)
	_, err = c.editIssue(ctx, ref, gitea.EditIssueOption{State: new(gitea.StateClosed)})
	return err
}

// Merge merges a pull request whose head is headSHA into base, in the repository's own merge style. It can be repeated.
// forge.ErrConflict means that the pull request has another head or base, or is closed. A *forge.Refusal has the reason
// of the forge.
//
// Merge deletes the branch if it is named after an issue, because it would block the next try, or if the repository's
// settings require it.
func (c *Client) Merge(ctx context.Context, ref forge.Ref, headSHA, base string) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "merge %s", ref)
	defer func() { err = c.explain(ctx, ref.Repo, err) }()
	in, x, err := c.readDetails(ctx, ref)
	if err != nil {
		return err
	}
	p := pullOf(ref.Repo, in, x.began)
	switch {
	case p.Merged:
		return nil
	case p.Closed:
		return fmt.Errorf("%w: it is closed", forge.ErrConflict)
	case headSHA == "" || p.HeadSHA != headSHA:
		return fmt.Errorf("%w: its head is %.10s now, not %.10s", forge.ErrConflict, p.HeadSHA, headSHA)
	case base == "" || p.Base != base: // Forgejo checks only the head, and merges into any base
		return fmt.Errorf("%w: its base is %.100q now, not %q", forge.ErrConflict, p.Base, base)
	}
	s, err := c.settings(ctx, ref.Repo)
	if err != nil {
		return err
	}
	remove := s.deleteBranch || isIssueBranch(p.Head) && strings.EqualFold(p.HeadRepo, ref.Repo)
	form := gitea.MergePullRequestOption{Style: s.style, HeadCommitId: headSHA, DeleteBranchAfterMerge: &remove}
	form.Title, form.Message = mergeMessage(s.style, &p, in.Body)
	if err = c.merge(ctx, ref, form); err == nil {
		return nil
	}
	// The forge answers 405 if the pull request is already merged, and can fail after the merge, when it deletes the
	// branch.
	now, _, again := c.readDetails(ctx, ref)
	if again == nil && now.HasMerged {
		return nil
	}
	if again != nil {
		now = in
	}
	if errors.Is(err, forge.ErrNotFound) { // Forgejo's answer if the pull request was closed meanwhile
		return fmt.Errorf("%w: it is closed", forge.ErrConflict)
	}
	return c.refusalOf(ctx, ref, diverged(now, s.style), c.explain(ctx, ref.Repo, err))
}

// isIssueBranch reports whether a branch is named after an issue.
func isIssueBranch(name string) bool { return len(forge.Closes(name, "", "", "")) > 0 }

// maxMergeMessage bounds the message of a squash merge, in bytes.
const maxMergeMessage = 16 << 10

// mergeMessage returns the title and message of the commit that a merge makes; empty where the forge's own are right.
// The forge closes issues by that commit too. Title and text of an agent's pull request are a model's words, so only
// the branch's own issue is closed. A squash has no other text than ours; a merge commit gets a title only if the
// forge's would close something, because a repository may have a template for it.
func mergeMessage(style gitea.MergeStyle, p *forge.Pull, body string) (title, message string) {
	repo, own := p.Repo, p.Closes
	if isIssueBranch(p.Head) {
		own = forge.Closes(p.Head, "", "", repo)
	}
	safe := forge.DefuseMessage(p.Title, repo, own)
	switch {
	case style == gitea.MergeStyleSquash:
		body = strings.ReplaceAll(body, "\r\n", "\n")
		if len(body) > maxMergeMessage {
			body = strings.ToValidUTF8(body[:maxMergeMessage], "")
		}
		return fmt.Sprintf("%s (#%d)", safe, p.Number), forge.DefuseMessage(body, repo, own)
	case safe != p.Title && (style == gitea.MergeStyleMerge || style == gitea.MergeStyleRebaseMerge):
		return fmt.Sprintf("Merge pull request '%s' (#%d) from %s into %s", safe, p.Number, p.Head, p.Base), ""
	}
	return "", ""
}
