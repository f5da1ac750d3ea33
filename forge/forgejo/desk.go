package forgejo

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Desk reads and writes a Forgejo for one session of the built-in agent program, with the agent's account. It caches
// nothing. Its methods are safe for concurrent use.
type Desk struct{ *connection }

// NewDesk returns a Desk; it makes no request. address is that of the forge, without /api/v1.
func NewDesk(address, token string) *Desk {
	return &Desk{connectWhole(strings.TrimSuffix(address, "/"), token)}
}

// APIAddress returns the address of a repository in the API, which agents' programs get as $FORGE_API.
func APIAddress(address, repo string) string {
	return strings.TrimSuffix(address, "/") + "/api/v1" + at(repo, "")
}

// at returns an API path below a repository.
func at(repo, format string, args ...any) string {
	return "/repos/" + repo + fmt.Sprintf(format, args...)
}

// A session reads at most maxPulls pull requests and maxReviews reviews. It reads the line comments of only the newest
// fullReviews reviews, because each takes a request.
const (
	maxPulls    = 150
	maxReviews  = 1_000
	fullReviews = 150
)

// Login returns the name of the account that the token belongs to.
func (d *Desk) Login(ctx context.Context) (string, error) {
	g, x := d.sdk(ctx)
	me, _, err := g.GetMyUserInfo()
	err = x.end(err)
	return loginOf(me), err
}

// Repository looks up a repository.
func (d *Desk) Repository(ctx context.Context, name string) (forge.Repository, error) {
	return d.lookUpRepo(ctx, name)
}

// Writers lists the accounts with write access to a repository.
func (d *Desk) Writers(ctx context.Context, repo string) ([]string, error) {
	return d.writers(ctx, repo)
}

func (c *connection) lookUpRepo(ctx context.Context, name string) (forge.Repository, error) {
	r, _, err := c.repository(ctx, name)
	if err != nil {
		return forge.Repository{}, err
	}
	style := mergeStyle(r)
	return forge.Repository{
		Name: r.FullName, Branch: r.DefaultBranch, Empty: r.Empty,
		Rebases: style == gitea.MergeStyleRebase || style == gitea.MergeStyleRebaseMerge,
	}, nil
}

// Issue reads an issue, without its blockers.
func (d *Desk) Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error) {
	in, _, err := d.issue(ctx, ref)
	if err != nil {
		return forge.Issue{}, err
	}
	return issueOf(ref.Repo, in, time.Time{}), nil
}

// Comments reads the comments on an issue or pull request, oldest first.
func (d *Desk) Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error) {
	wire, _, err := d.comments(ref, time.Time{}).all(ctx)
	all := make([]forge.Comment, 0, len(wire))
	for _, in := range wire {
		if in != nil {
			all = append(all, forge.Comment{ID: in.ID, Author: loginOf(in.Poster), Body: in.Body})
		}
	}
	return all, err
}

// Comment adds a comment to an issue or pull request. A repeated call adds another comment.
func (d *Desk) Comment(ctx context.Context, ref forge.Ref, body string) error {
	return d.comment(ctx, ref, body)
}

// Pull reads a pull request, without its reviews and checks.
func (d *Desk) Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error) {
	in, _, err := d.pull(ctx, ref)
	if err != nil {
		return forge.Pull{}, err
	}
	return deskPull(ref.Repo, in), nil
}

// deskPull converts a pull request for a session. Its Head is refs/pull/N/head once its branch is deleted, so that a
// later pull request with the same branch name is not mistaken for it.
func deskPull(repo string, in *gitea.PullRequest) forge.Pull {
	p := pullOf(repo, in, time.Time{})
	if in.Head != nil {
		p.Head = in.Head.Ref
	}
	p.Mergeable = forge.MergeNotClean
	if in.Mergeable {
		p.Mergeable = forge.MergeClean
	}
	return p
}

// PullsFrom lists the pull requests, open or ended, from a branch of the repository itself. It searches the 150 that
// changed last.
func (d *Desk) PullsFrom(ctx context.Context, repo, branch string) ([]forge.Pull, error) {
	wire, err := d.pulls(repo, gitea.StateAll, "recentupdate").upTo(ctx, maxPulls)
	var all []forge.Pull
	for _, in := range wire {
		if in == nil {
			continue // the forge cannot load it
		}
		p := deskPull(repo, in)
		if p.Head == branch && (p.HeadRepo == "" || strings.EqualFold(p.HeadRepo, repo)) {
			all = append(all, p)
		}
	}
	return all, err
}

// OpenPull opens a pull request, or returns the open one from the same branch: the forge allows one per head and base.
func (d *Desk) OpenPull(ctx context.Context, p forge.PullDraft) (number int64, err error) {
	owner, name := owner(p.Repo)
	g, x := d.sdk(ctx)
	made, _, err := g.CreatePullRequest(owner, name,
		gitea.CreatePullRequestOption{Title: p.Title, Body: p.Body, Head: p.Head, Base: p.Base})
	err = x.end(err)
	switch {
	case err == nil:
		return made.Index, nil
	case !errors.Is(err, forge.ErrConflict):
		return 0, err
	}
	pulls, listErr := d.PullsFrom(ctx, p.Repo, p.Head)
	open := slices.IndexFunc(pulls, func(p forge.Pull) bool { return !p.Closed })
	if listErr != nil || open < 0 {
		return 0, err
	}
	return pulls[open].Number, nil
}

// Reviews reads the newest submitted reviews of a pull request that are not dismissed, oldest first.
func (d *Desk) Reviews(ctx context.Context, pull forge.Ref) ([]forge.FullReview, error) {
	wire, err := d.reviews(pull).upTo(ctx, maxReviews)
	if err != nil {
		return nil, err
	}
	wire = slices.DeleteFunc(wire, func(in *gitea.PullReview) bool {
		if in == nil {
			return true
		}
		r, submitted := reviewOf(in)
		return !submitted || r.Dismissed
	})
	wire = wire[max(0, len(wire)-fullReviews):]
	var all []forge.FullReview
	for _, in := range wire {
		r, _ := reviewOf(in)
		full := forge.FullReview{Review: r}
		if in.CodeCommentsCount > 0 {
			if full.Lines, err = d.lines(ctx, pull, r.ID); err != nil {
				return nil, err
			}
		}
		all = append(all, full)
	}
	return all, nil
}

// lines reads the line comments of one review. The forge answers 404 if they were all deleted.
func (d *Desk) lines(ctx context.Context, pull forge.Ref, review int64) (all []forge.LineComment, err error) {
	owner, name := owner(pull.Repo)
	g, x := d.sdk(ctx)
	wire, _, err := g.ListPullReviewComments(owner, name, pull.Number, review)
	wire, err = entries(x, wire, err)
	for _, c := range wire {
		if c != nil {
			all = append(all, forge.LineComment{
				Author: loginOf(c.Reviewer), Path: c.Path, Line: int64(max(c.LineNum, c.OldLineNum)), Body: c.Body,
			})
		}
	}
	return all, unless(err, forge.ErrNotFound)
}

// PostReview submits a review of exactly the commit that it names. A repeated call submits another review.
func (d *Desk) PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error {
	comments := make([]gitea.CreatePullReviewComment, len(r.Lines))
	for i, c := range r.Lines {
		comments[i] = gitea.CreatePullReviewComment{Path: c.Path, NewLineNum: c.Line, Body: c.Body}
	}
	event := map[forge.Verdict]gitea.ReviewStateType{
		forge.Approved: gitea.ReviewStateApproved, forge.ChangesRequested: gitea.ReviewStateRequestChanges,
		forge.Commented: gitea.ReviewStateComment,
	}[r.Verdict]
	owner, name := owner(pull.Repo)
	g, x := d.sdk(ctx)
	_, _, err := g.CreatePullReview(owner, name, pull.Number,
		gitea.CreatePullReviewOptions{State: event, CommitID: r.CommitSHA, Body: r.Body, Comments: comments})
	return x.wrote(err)
}

// Checks returns the failed checks of a commit, sorted by name, each with its latest report.
func (d *Desk) Checks(ctx context.Context, repo, sha string) ([]forge.Check, error) {
	combined, err := d.combinedStatus(ctx, repo, sha)
	if err != nil {
		return nil, err
	}
	var all []forge.Check
	for _, s := range combined.Statuses {
		if s != nil && (s.State == gitea.StatusFailure || s.State == gitea.StatusError) {
			all = append(all, forge.Check{Name: s.Context, State: string(s.State), Text: s.Description, URL: s.TargetURL})
		}
	}
	slices.SortStableFunc(all, func(a, b forge.Check) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// jobPage matches the end of the address of a Forgejo Actions job, to which a commit status links. The rest of the
// address is ignored: any account that can push can set a status, and must not be able to send our token to another
// server.
var jobPage = regexp.MustCompile(`/actions/runs/[0-9]+/jobs/[0-9]+(/attempt/[0-9]+)?$`)

// CheckLog reads the log of a check that the forge's own CI ran, and returns "" for any other check. Forgejo has no API
// for logs: it serves them below the job's page, and refuses a token for the pages of a private repository
// (forge.ErrForbidden).
func (d *Desk) CheckLog(ctx context.Context, repo string, c forge.Check) (string, error) {
	page := jobPage.FindString(c.URL)
	if page == "" || !strings.HasSuffix(c.URL, "/"+repo+page) {
		return "", nil
	}
	return d.log(ctx, repo, page)
}

// File reads a file of a repository's default branch.
func (d *Desk) File(ctx context.Context, repo, path string) (string, error) {
	owner, name := owner(repo)
	g, x := d.sdk(ctx)
	text, _, err := g.GetFile(owner, name, "", path)
	if err = x.wrote(err); err != nil {
		return "", err
	}
	return string(text), nil
}

// Folder lists the names of the files in a folder of a repository's default branch, sorted.
func (d *Desk) Folder(ctx context.Context, repo, path string) (names []string, err error) {
	owner, name := owner(repo)
	g, x := d.sdk(ctx)
	files, _, err := g.ListContents(owner, name, "", path)
	if files, err = entries(x, files, err); err != nil {
		return nil, err
	}
	for _, f := range files {
		if f != nil && f.Type == "file" {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Edit changes files of a repository's default branch in one commit. After a failure, such as another account's change
// between our reading and writing, it tries once more. A repeated call appends a second time.
func (d *Desk) Edit(ctx context.Context, repo, message string, edits []forge.Edit) (err error) {
	for range 2 {
		files := make([]fileChange, len(edits))
		for i, e := range edits {
			if files[i], err = d.changeOf(ctx, repo, e); err != nil {
				return err
			}
		}
		if err = d.commitFiles(ctx, repo, map[string]any{"message": message, "files": files}); err == nil {
			return nil
		}
	}
	return err
}

// changeOf turns an edit into a change for the API, which requires the SHA of the file version to be replaced.
func (d *Desk) changeOf(ctx context.Context, repo string, e forge.Edit) (fileChange, error) {
	now, err := d.file(ctx, repo, e.Path)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return fileChange{}, err
	}
	if e.Append {
		e.Text = now.Text + e.Text
	}
	return changeOf(forge.File{Path: e.Path, Text: e.Text, SHA: now.SHA}), nil
}

// file reads a file of a repository's default branch, with the SHA of its content.
func (c *connection) file(ctx context.Context, repo, path string) (forge.File, error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	f, _, err := g.GetContents(owner, name, "", path)
	if err = x.end(err); err != nil {
		return forge.File{}, err
	}
	if f.Content == nil {
		return forge.File{}, fmt.Errorf("%s is not a file", path)
	}
	text, err := base64.StdEncoding.DecodeString(*f.Content)
	if err != nil {
		return forge.File{}, err
	}
	return forge.File{Path: path, Text: string(text), SHA: f.SHA}, nil
}

// fileChange is a changed file in a commit that the forge makes.
type fileChange struct {
	Operation string `json:"operation"`
	Path      string `json:"path"`
	Content   string `json:"content"`
	SHA       string `json:"sha,omitempty"`
}

func changeOf(f forge.File) fileChange {
	c := fileChange{"create", f.Path, base64.StdEncoding.EncodeToString([]byte(f.Text)), f.SHA}
	if f.SHA != "" {
		c.Operation = "update"
	}
	return c
}
