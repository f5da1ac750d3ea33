package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/plan"
)

// remotes is the ref prefix of the forge's branches in the mirror.
const remotes = "refs/remotes/origin/"

// implement implements an issue in a pull request.
func (r *run) implement(ctx context.Context) (reason string, err error) {
	d, at, err := r.issuePrompt(ctx)
	if err != nil {
		return "", err
	}
	if d.Reviews, err = r.rejectedReviews(ctx); err != nil {
		return "", err
	}
	said, err := r.change(ctx, d, at, remotes+d.Base, firstWords(string(d.Title)))
	if err != nil {
		return "", err
	}
	reason, err = r.open(ctx, d, said.Title, joined(said.Summary, said.left, fmt.Sprintf("Fixes #%d", r.Number)))
	r.keepAnswer(ctx, d.Branch, &said, err)
	return reason, err
}

// issuePrompt returns the prompt data of an issue, and the commit at which its branch begins.
func (r *run) issuePrompt(ctx context.Context) (d *promptData, at string, err error) {
	if d, err = r.issueTexts(ctx); err != nil {
		return nil, "", err
	}
	if d.Base, err = r.fetchBase(ctx); err != nil {
		return nil, "", err
	}
	d.Branch, at, err = r.issueBranch(ctx, d.Base)
	return d, at, err
}

// issueTexts returns the texts of an issue and its comments.
func (r *run) issueTexts(ctx context.Context) (*promptData, error) {
	is, err := r.Desk.Issue(ctx, r.ref())
	if err != nil {
		return nil, err
	}
	if err := r.findReaders(ctx); err != nil {
		return nil, err
	}
	d := &promptData{Title: quoted(is.Title), Body: quoted(cut(is.Body, maxBody)), Author: account(is.Author)}
	if d.Comments, err = r.comments(ctx); err != nil {
		return nil, err
	}
	is.Number = r.Number
	r.post.own = append(forge.Closes("", is.Title, is.Body, r.Repo), r.ref()) // what people ask for may be closed
	d.Issues = []issueText{issueTextOf(&is)}
	d.Issues[0].Comments = d.Comments
	return d, nil
}

// fetchBase updates the mirror, and returns the repository's default branch.
func (r *run) fetchBase(ctx context.Context) (string, error) {
	base, err := r.base(ctx)
	if err != nil {
		return "", err
	}
	if err := r.tree.fetch(ctx); err != nil {
		return "", err
	}
	return base, r.tree.setOriginHead(ctx, base)
}

// open opens a pull request for the pushed branch. The title and the first line of its body name the agent, because
// lists and mails show nothing else.
func (r *run) open(ctx context.Context, d *promptData, title, body string) (reason string, err error) {
	by := "created by " + r.Agent
	draft := forge.PullDraft{
		Repo: r.Repo, Head: d.Branch, Base: d.Base, Title: titled(title, " ("+by+")"),
		Body: joined(by, body, r.refusedWords(ctx)),
	}
	var number int64
	err = r.outlast(ctx, func() (err error) {
		number, err = r.Desk.OpenPull(ctx, draft)
		return err
	})
	return fmt.Sprintf("opened #%d", number), err
}

// maxTitle is the longest title that a forge's database accepts, in characters.
const maxTitle = 255

// titled appends an end to a title, and shortens the title if both would be too long.
func titled(title, end string) string {
	room := max(maxTitle-utf8.RuneCountInString(end), 1)
	if runes := []rune(title); len(runes) > room {
		title = string(runes[:room-1]) + "…"
	}
	return title + end
}

// issueBranch returns the branch for the issue and the commit at which work begins. The branch is fix/issue-N, created
// from the default branch, or continued if it was pushed before. Once a pull request of that branch has ended,
// fix/issue-N-2 follows.
func (r *run) issueBranch(ctx context.Context, base string) (branch, at string, err error) {
	for k := 1; ; k++ {
		branch = r.branchNamed(k)
		pulls, err := r.Desk.PullsFrom(ctx, r.Repo, branch)
		switch {
		case err != nil:
			return "", "", err
		case slices.ContainsFunc(pulls, func(p forge.Pull) bool { return p.Closed }):
		case r.tree.has(ctx, remotes+branch):
			r.ownBranch = len(pulls) == 0
			return branch, remotes + branch, nil
		default:
			r.ownBranch = true
			return branch, remotes + base, nil
		}
	}
}

// branchNamed returns the name of the kth branch for the issue.
func (r *run) branchNamed(k int) string {
	if k == 1 {
		return fmt.Sprintf("fix/issue-%d", r.Number)
	}
	return fmt.Sprintf("fix/issue-%d-%d", r.Number, k)
}

// rejectedReviews returns the reviews of the last pull request for the issue that was closed unmerged, if the issue was
// passed on to the next agent of the escalation list.
func (r *run) rejectedReviews(ctx context.Context) ([]reviewText, error) {
	var last int64
	for k := 1; len(r.Tried) > 0; k++ {
		pulls, err := r.Desk.PullsFrom(ctx, r.Repo, r.branchNamed(k))
		if err != nil || len(pulls) == 0 {
			break // the reviews help, but are not required
		}
		for _, p := range pulls {
			if p.Closed && !p.Merged {
				last = max(last, p.Number)
			}
		}
	}
	if last == 0 {
		return nil, nil
	}
	return r.reviews(ctx, forge.Ref{Repo: r.Repo, Number: last})
}

// rework responds to a review, failing checks or a conflict with further commits.
func (r *run) rework(ctx context.Context) (reason string, err error) {
	p, err := r.pull(ctx)
	if err != nil {
		return "", err
	}
	if p.HeadRepo != "" && !strings.EqualFold(p.HeadRepo, r.Repo) {
		return "", fmt.Errorf("the pull request comes from %s, where %s does not push", p.HeadRepo, r.Agent)
	}
	if !wordLike(p.Head) {
		return "", fmt.Errorf("cannot work on a branch that is called %q", p.Head)
	}
	if err := r.tree.fetch(ctx); err != nil {
		return "", err
	}
	d, err := r.reworkPrompt(ctx, &p)
	if err != nil {
		return "", err
	}
	said, err := r.change(ctx, d, remotes+p.Head, remotes+p.Head, "Answer the review")
	if words := joined(said.Summary, said.left); err == nil && words != "" {
		if err := r.awaitForge(ctx); err != nil {
			return "", err
		}
		err = r.Desk.Comment(ctx, r.ref(), joined(words, "created by "+r.Agent))
	}
	return "", err
}

// reworkPrompt returns the prompt data of a pull request and its issues. The prompt begins like the issue's.
func (r *run) reworkPrompt(ctx context.Context, p *forge.Pull) (*promptData, error) {
	d, err := r.pullPrompt(ctx, p)
	if err != nil {
		return nil, err
	}
	for i := range d.Issues {
		ref := forge.Ref{Repo: r.Repo, Number: d.Issues[i].Number}
		if d.Issues[i].Comments, err = r.commentsOn(ctx, ref); err != nil {
			r.logf("cannot read the comments on %s: %v", ref, err) // the session works without them
		}
	}
	d.Branch, d.Conflict = p.Head, p.Mergeable == forge.MergeNotClean
	d.Checks, err = r.checks(ctx, p.HeadSHA)
	return d, err
}

// change lets the CLI work on the branch of d, which begins at the commit at, and publishes the commits that since does
// not contain. title is used if the CLI provides none.
func (r *run) change(ctx context.Context, d *promptData, at, since, title string) (said answer, err error) {
	if err := r.checkOut(ctx, d, at); err != nil {
		return said, err
	}
	r.into = d.Base
	said, finished := r.finished(ctx, d.Branch)
	if r.verifying.before = finished; !finished {
		if said, finished, err = r.catchUp(ctx, d); err != nil {
			return said, err
		}
		if finished, err = r.prepare(ctx, d, finished); err != nil {
			return said, err
		}
	}
	if !finished {
		if said, err = r.develop(ctx, d, since); err != nil {
			return said, err
		}
	}
	said.Title = cmp.Or(said.Title, title)
	left, err := r.publish(ctx, d.Branch, since, said.Title)
	if len(left) > 0 {
		said.left = r.leftOut(left)
	}
	said.left = joined(said.left, r.brokenBase())
	r.keepAnswer(ctx, d.Branch, &said, err)
	return said, err
}

// pullPrompt returns the prompt data of a pull request that rework and review share.
func (r *run) pullPrompt(ctx context.Context, p *forge.Pull) (*promptData, error) {
	if err := r.findReaders(ctx); err != nil {
		return nil, err
	}
	remarks, err := r.comments(ctx)
	if err != nil {
		return nil, err
	}
	reviews, err := r.reviews(ctx, r.ref())
	if err != nil {
		return nil, err
	}
	return &promptData{
		Base: p.Base, Title: quoted(p.Title), Body: quoted(cut(p.Body, maxBody)), Author: account(p.Author),
		Comments: remarks, Reviews: reviews, Issues: r.issuesOf(ctx, p),
	}, nil
}

// errand does a role's own job. Its commits become a pull request; most errands commit nothing.
func (r *run) errand(ctx context.Context) (reason string, err error) {
	d := &promptData{Branch: r.Role + "/" + r.RunID}
	if r.tree.commit(ctx, stoppedRefs+r.state.Branch) != "" && strings.HasPrefix(r.state.Branch, r.Role+"/") {
		d.Branch = r.state.Branch // the last round was interrupted
	}
	if d.Base, err = r.fetchBase(ctx); err != nil {
		return "", err
	}
	if err := r.checkOut(ctx, d, remotes+d.Base); err != nil {
		return "", err
	}
	said, err := r.converse(ctx, d)
	if err != nil {
		return "", err
	}
	summary := firstWords(said.Summary)
	title := cmp.Or(said.Title, r.Role+": "+cmp.Or(summary, "regular round"))
	if idle, err := r.nothingToPublish(ctx, remotes+d.Base); err != nil || idle {
		return summary, err
	}
	if err := r.offerUntracked(ctx, remotes+d.Base); err != nil {
		return "", err
	}
	if said, err = r.readAnswer(ctx); err != nil {
		return "", err
	}
	left, err := r.publish(ctx, d.Branch, remotes+d.Base, title)
	if err != nil {
		return "", err
	}
	return r.open(ctx, d, title, joined(said.Summary, r.leftOut(left)))
}

// develop lets the CLI work, and reminds it once if it has produced nothing to publish that since does not contain.
func (r *run) develop(ctx context.Context, d *promptData, since string) (answer, error) {
	said, err := r.converse(ctx, d)
	if err != nil {
		return said, err
	}
	if err := said.stops(); err != nil {
		return said, err
	}
	idle, err := r.nothingToPublish(ctx, since)
	if err != nil {
		return said, err
	}
	if idle {
		last, err := r.followUp(ctx, "Nothing in the repository has changed. Make the change now, and commit it with git.")
		if err != nil {
			return said, err
		}
		if said, err = r.readAnswer(ctx); err != nil {
			return said, err
		}
		if err := said.stops(); err != nil {
			return said, err
		}
		if idle, err = r.nothingToPublish(ctx, since); err != nil {
			return said, err
		}
		if idle {
			words := prefixed("; its last words: ", firstWords(last.Words))
			return said, end(agents.NoProgress, "no commits that change anything"+words)
		}
	}
	if err := r.offerUntracked(ctx, since); err != nil {
		return said, err
	}
	return r.readAnswer(ctx)
}

// plan writes a plan for an issue, and publishes nothing of the worktree.
func (r *run) plan(ctx context.Context) (reason string, err error) {
	d, at, err := r.issuePrompt(ctx)
	if err != nil {
		return "", err
	}
	if err := r.checkOut(ctx, d, at); err != nil {
		return "", err
	}
	said, err := r.converse(ctx, d)
	if err != nil {
		return "", err
	}
	if wrong := r.noPlan(&said); wrong != "" && said.stops() == nil {
		words := wrong + " Write the file " + r.answerPath() + " now, with the JSON that was asked for."
		if _, err := r.followUp(ctx, words); err != nil {
			return "", err
		}
		if said, err = r.readAnswer(ctx); err != nil {
			return "", err
		}
	}
	if err := said.stops(); err != nil {
		return "", err
	}
	if said.Plan == "" {
		return "", end(agents.NoProgress, "no plan")
	}
	return "", endWithText(agents.Planned, said.Plan)
}

// noPlan says why an answer has no plan of the kind that was asked for; "" if it has. The supervisor checks a split
// again, and a mistake that is still there then goes to a person.
func (r *run) noPlan(said *answer) string {
	if said.Plan == "" {
		return "There is no plan yet."
	}
	if !r.Split {
		return ""
	}
	_, err := plan.ParseSplit(said.Plan, r.ref())
	if n := len(said.Plan); err == nil && n > agents.MaxWords {
		err = fmt.Errorf("it has %d bytes, more than %d", n, agents.MaxWords)
	}
	if err != nil {
		return "The plan cannot be used:\n" + err.Error() + "\n"
	}
	return ""
}

// converse runs the CLI with the role's prompt and reads its answer. It first removes the answers of an earlier
// session.
func (r *run) converse(ctx context.Context, d *promptData) (answer, error) {
	_, _ = os.Remove(r.answerPath()), os.Remove(r.verdictPath())
	var err error
	if d.Dialogue, err = r.dialogue(ctx); err != nil {
		return answer{}, err
	}
	prompt, err := r.prompt(ctx, d)
	if err != nil {
		return answer{}, err
	}
	if r.answered {
		if r.reply, err = r.promptFor(ctx, r.Role+"-answer", "answer", d); err != nil {
			return answer{}, err
		}
	}
	last, err := r.runPrompt(ctx, prompt)
	if err == nil {
		err = r.finish(ctx, last)
	}
	if err != nil {
		return answer{}, err
	}
	return r.readAnswer(ctx)
}
