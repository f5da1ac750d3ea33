package session

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// refusedPush is a push that the forge refuses, although it lets the account push: because of a rule about branches, a
// hook, or a limit of size. The same push would be refused again.
type refusedPush struct {
	words    string // the forge's, on one line
	mendable bool   // it may be about the commits, which an agent can change
}

func (e *refusedPush) Error() string { return "the forge refuses the push: " + e.words }

var (
	remoteRejected = regexp.MustCompile(`(?m)^ ! \[remote rejected\] .*\((.*)\)$`)
	// noHint is a line of a forge that is not about a refusal.
	noHint = regexp.MustCompile(`^(error: )?(hook declined to update|failed to push|Processing ref|Create a new pull)`)
	// aboutRights is a reason that no other commit would change.
	aboutRights = regexp.MustCompile(`(?i)protected|not allowed|not permitted|permission|authori[sz]ed|denied`)
)

// refusalIn returns the refusal in what git said about a push; nil if it is another failure.
func refusalIn(said string) *refusedPush {
	if strings.Contains(said, "HTTP 413") {
		return &refusedPush{"it is too large for the forge, or for a proxy before it (HTTP 413)", true}
	}
	m := remoteRejected.FindStringSubmatch(said)
	if m == nil {
		return nil
	}
	why := m[1]
	var words []string
	for line := range strings.Lines(said) {
		word, remote := strings.CutPrefix(strings.TrimSpace(line), "remote:")
		if word = strings.TrimSpace(word); remote && word != "" && !noHint.MatchString(word) {
			words = append(words, word)
		}
	}
	text := strings.Join(words, "; ")
	switch {
	case strings.Contains(text, "permission denied for writing"):
		return nil // of the account, which the supervisor asks the forge about
	case strings.Contains(said, "exists; cannot create"): // a branch fix, where fix/issue-1 should be
		return &refusedPush{firstWords(cmp.Or(text, why)), false}
	case strings.Contains(why, "declined"), strings.Contains(why, "unpacker error"), strings.Contains(why, "hidden ref"):
		text = firstWords(text + prefixed(" ", "("+why+")"))
		return &refusedPush{text, !aboutRights.MatchString(text)}
	}
	return nil // such as a lock that another push held
}

// handIn is finished work that the forge refused, or did not answer for. The next session hands it in without the CLI.
type handIn struct {
	Branch, Commit       string
	Title, Summary, Left string // of the pull request
}

// pushBranch pushes the session's branch. A refusal about the commits goes to the CLI once. Another one ends the
// session: its commits are kept, and a person has to act.
func (r *run) pushBranch(ctx context.Context, branch, since, message string) error {
	t := r.tree
	expected := t.commit(ctx, remotes+branch)
	push := func() error {
		return r.outlast(ctx, func() error {
			if err := t.checkSubmodules(ctx, since); err != nil {
				return err
			}
			return t.push(ctx, branch, expected)
		})
	}
	err := push()
	if moved := r.takeIn(ctx, branch, expected, err); moved != "" {
		expected = moved
		err = push()
	}
	if words := mendable(err); words != "" && r.heard {
		r.logf("%v", err)
		if _, err := r.followUp(ctx, words); err != nil {
			return err
		}
		if err := r.settle(ctx, since); err != nil {
			return err
		}
		left, err := t.commitRest(ctx, since, message)
		if err == nil {
			_, err = r.verify(ctx, since, message, left) // these are other commits
		}
		if err != nil {
			return err
		}
		return refusedBy(push())
	}
	return refusedBy(err)
}

// refusedBy turns a refusal of the forge into an outcome.
func refusedBy(err error) error {
	if no, ok := errors.AsType[*refusedPush](err); ok {
		return end(agents.PushRefused, no.Error())
	}
	return err
}

// takeIn merges what another account pushed to the branch during the session, if git can do that alone, and returns the
// branch's new head. It returns "" where the push failed for another cause, or the branch lost commits.
func (r *run) takeIn(ctx context.Context, branch, expected string, cause error) (head string) {
	t := r.tree
	failed, ok := errors.AsType[*gitFailure](cause)
	if !ok || !strings.Contains(failed.said, "stale info") || expected == "" {
		return ""
	}
	if err := r.outlast(ctx, func() error { return t.fetch(ctx) }); err != nil {
		return ""
	}
	head = t.commit(ctx, remotes+branch)
	if head == "" || !t.contains(ctx, head, expected) {
		return ""
	}
	if _, err := t.runGit(ctx, "merge", "--quiet", "--no-edit", head); err != nil {
		_, _ = t.runGit(ctx, "merge", "--abort")
		return ""
	}
	r.logf("%s has new commits of another account: merged them", branch)
	return head
}

// mendable returns what to tell the CLI about a failed push that other commits may avoid; "" if none would.
func mendable(err error) string {
	no, refused := errors.AsType[*refusedPush](err)
	if !(refused && no.mendable) && !errors.Is(err, errNoContent) && !errors.Is(err, errNoSubmodule) {
		return ""
	}
	return "Your commits cannot be pushed: " + err.Error() + ". If you can mend that in the commits, do it now (amend " +
		"or rebase your own, but none that came before them), and end. The push is then tried once more."
}

// finished returns the answer of an earlier session whose finished work is not handed in, if the worktree still has
// exactly that work.
func (r *run) finished(ctx context.Context, branch string) (said answer, ok bool) {
	h := r.state.HandIn
	r.state.HandIn = nil
	if h == nil || h.Branch != branch || r.answered {
		return said, false
	}
	head, err := r.tree.runGit(ctx, "rev-parse", "HEAD")
	if err != nil || head != h.Commit {
		return said, false
	}
	r.logf("the work is finished, and the forge refused it or did not answer: pushing it again")
	return answer{Title: h.Title, Summary: h.Summary, left: h.Left}, true
}

// keepAnswer keeps the answer of a session whose finished work the forge refuses, or does not answer for.
func (r *run) keepAnswer(ctx context.Context, branch string, said *answer, err error) {
	e, ok := errors.AsType[*ended](err)
	if refused := ok && e.Result == agents.PushRefused; !refused && !errors.Is(err, forge.ErrUnavailable) {
		return
	}
	if head, err := r.tree.runGit(ctx, "rev-parse", "HEAD"); err == nil {
		r.state.HandIn = &handIn{branch, head, said.Title, said.Summary, said.left}
	}
}
