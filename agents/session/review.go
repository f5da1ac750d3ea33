package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
)

// review reviews a pull request, at exactly the head that was read.
func (r *run) review(ctx context.Context) (reason string, err error) {
	p, err := r.pull(ctx)
	if err != nil {
		return "", err
	}
	d, err := r.pullPrompt(ctx, &p)
	if err != nil {
		return "", err
	}
	if err := r.readHead(ctx, d, &p); err != nil {
		return "", err
	}
	diff, err := r.tree.runGit(ctx, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=log",
		"--src-prefix=a/", "--dst-prefix=b/", remotes+p.Base+"..."+p.HeadSHA)
	if err != nil {
		return "", err
	}
	d.Diff = quoted(cut(diff, maxDiff))
	closing, err := r.closingMessages(ctx, p.HeadSHA, "--not", remotes+p.Base)
	if err != nil {
		return "", err
	}
	d.Closing = quoted(cut(closing, maxRemark))
	v, err := r.judge(ctx, d)
	if err != nil {
		return "", err
	}
	lines, summary := v.place(diffLines(diff))
	given := forge.FullReview{Lines: lines, Review: forge.Review{
		Verdict: forge.ChangesRequested, CommitSHA: p.HeadSHA, Body: joined(summary, "reviewed by "+r.Agent),
	}}
	reason = "asked for changes"
	if v.Approve {
		given.Verdict, reason = forge.Approved, "approved"
	}
	return reason, r.Desk.PostReview(ctx, r.ref(), &given)
}

// readHead checks out the pull request's head. A fork's head is only available at the forge's pull ref.
func (r *run) readHead(ctx context.Context, d *promptData, p *forge.Pull) error {
	if err := r.tree.fetch(ctx); err != nil {
		return err
	}
	if !r.tree.has(ctx, p.HeadSHA) {
		if err := r.tree.fetch(ctx, fmt.Sprintf("+refs/pull/%d/head:%spull/%d", r.Number, remotes, r.Number)); err != nil {
			return err
		}
	}
	if err := r.checkOut(ctx, d, p.HeadSHA); err != nil { // without a branch: a review never continues an earlier one
		return err
	}
	if err := os.RemoveAll(r.asidePath()); err != nil {
		return err
	}
	return os.Mkdir(r.asidePath(), 0o700)
}

// judge lets the CLI review, and reads the verdict file that it must write. If the file is missing or unreadable, judge
// asks the CLI once more; then the review has failed, whatever the CLI printed.
func (r *run) judge(ctx context.Context, d *promptData) (*verdict, error) {
	said, err := r.converse(ctx, d)
	if err != nil {
		return nil, err
	}
	if said.Question != "" {
		return nil, endWithText(agents.Question, said.Question)
	}
	v, err := r.verdict()
	if err == nil && v.Approve && waits.MatchString(v.Summary) {
		err = errors.New("it approves, and says that you wait for something")
	}
	if err == nil {
		return v, nil
	}
	_, err = r.followUp(ctx, fmt.Sprintf("Your review does not count yet: %v. What you started in the background has "+
		"ended. Write the file %s now, with the JSON that was asked for.", err, r.verdictPath()))
	if err != nil {
		return nil, err
	}
	if v, err = r.verdict(); err != nil {
		return nil, end(agents.Failed, err.Error())
	}
	return v, nil
}

func (r *run) verdict() (*verdict, error) {
	text, err := plainfile.Read(r.verdictPath(), maxLeft)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it wrote no verdict")
	}
	if err != nil {
		return nil, err
	}
	return parseVerdict([]byte(r.post.hide(string(text))))
}
