package forgejo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// refusals has a row for each answer with which the sources of Forgejo 10 and Gitea 1.23 refuse a merge: the handler
// MergePullRequest, and the checks in services/pull. A row fits if the status is the same and the message contains the
// text; the first one counts. docs/operations.md tells people what we do about each.
var refusals = []struct {
	status int
	says   string
	cause  forge.RefusalCause
}{
	{http.StatusMethodNotAllowed, "user not allowed to merge", forge.RefusedRule},
	{http.StatusMethodNotAllowed, "work in progress", forge.RefusedLate}, // the next scan shows the draft
	// The forge checks for conflicts, found one, or could not check: it answers all of that in the same way.
	{http.StatusMethodNotAllowed, "please try again later", forge.RefusedLate},
	{http.StatusInternalServerError, "conflict checking is in progress", forge.RefusedLate},
	{http.StatusMethodNotAllowed, "status checks", forge.RefusedLate},
	{http.StatusMethodNotAllowed, "does not have enough approvals", forge.RefusedRule},
	{http.StatusMethodNotAllowed, "there are requested changes", forge.RefusedRule},
	{http.StatusMethodNotAllowed, "official review requests", forge.RefusedRule},
	{http.StatusMethodNotAllowed, "head branch is behind the base branch", forge.RefusedOutdated},
	{http.StatusMethodNotAllowed, "changed protected files", forge.RefusedRule},
	{http.StatusMethodNotAllowed, "t sign: ", forge.RefusedRule}, // Forgejo writes "won't", Gitea "wont"
	{http.StatusMethodNotAllowed, "merge style", forge.RefusedRule},
	{http.StatusUnprocessableEntity, "", forge.RefusedRule}, // a merge style that this version of the forge lacks
	{http.StatusInternalServerError, "blocked by an open dependency", forge.RefusedRule},
	{http.StatusInternalServerError, "only fast-forwards", forge.RefusedOutdated},
	{http.StatusConflict, "pushrejected", forge.RefusedRule}, // a hook of the repository
	{http.StatusConflict, "unrelated histories", forge.RefusedRule},
	{http.StatusConflict, "conflict at commit", forge.RefusedRule}, // it merges cleanly, but does not rebase
	{http.StatusConflict, "", forge.RefusedLate},                   // something moved, or conflicts
	{http.StatusRequestEntityTooLarge, "", forge.RefusedRule},
	{http.StatusForbidden, "", forge.RefusedRule},
	{http.StatusMethodNotAllowed, "", forge.RefusedLate},
}

// refusalOf returns the refusal of a merge with the forge's words; err itself if it is none, such as an outage. For a
// 500 without words, why is what is known; it can be empty.
func (c *Client) refusalOf(ctx context.Context, ref forge.Ref, why string, err error) error {
	e, ok := errors.AsType[*requestError](err)
	if !ok {
		return err
	}
	words := e.said
	if e.status == http.StatusInternalServerError { // Forgejo shows its reason for a 500 only to admins
		words = cmp.Or(why, c.openDependency(ctx, ref), words)
	}
	for _, row := range refusals {
		if row.status == e.status && strings.Contains(strings.ToLower(words), row.says) {
			return &forge.Refusal{Cause: row.cause, Words: words}
		}
	}
	return err
}

// openDependency says which open issue a pull request depends on; empty if there is none.
func (c *Client) openDependency(ctx context.Context, ref forge.Ref) string {
	list, _, err := c.dependencies(ref).all(ctx)
	if err != nil {
		return ""
	}
	for _, dep := range list {
		if dep != nil && dep.State == gitea.StateOpen {
			return fmt.Sprintf("is blocked by an open dependency, #%d", dep.Index)
		}
	}
	return ""
}

// diverged says that a pull request in a repository that only fast-forwards lacks commits of its base; empty if it has
// all. The forge refuses such a merge with a 500.
func diverged(p *gitea.PullRequest, style gitea.MergeStyle) string {
	if style != gitea.MergeStyleFastForwardOnly || p.Base == nil || p.MergeBase == p.Base.Sha {
		return ""
	}
	return "the repository only fast-forwards, and the head branch is behind the base branch"
}
