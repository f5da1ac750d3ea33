package forgejo

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/rest"
)

// Desk reads and writes a Forgejo for one session of the built-in agent program, with the agent's account. It caches
// nothing. Its methods are safe for concurrent use. Package rest sends the requests; the SDK supplies the types that
// decode the answers.
type Desk struct{ api rest.API }

// NewDesk returns a Desk; it makes no request. address is that of the forge, without /api/v1.
func NewDesk(address, token string) *Desk {
	return &Desk{rest.API{URL: strings.TrimSuffix(address, "/"), Token: token}}
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
	var me gitea.User
	err := d.api.Get(ctx, "/user", &me)
	return me.UserName, err
}

// Repository looks up a repository.
func (d *Desk) Repository(ctx context.Context, name string) (forge.Repository, error) {
	return repository(ctx, &d.api, name)
}

// Writers lists the accounts with write access to a repository.
func (d *Desk) Writers(ctx context.Context, repo string) ([]string, error) {
	return writersOf(ctx, d.api.Page, repo)
}

func repository(ctx context.Context, api *rest.API, name string) (forge.Repository, error) {
	var r gitea.Repository
	err := api.Get(ctx, at(name, ""), &r)
	return forge.Repository{Name: r.FullName, Branch: r.DefaultBranch, Empty: r.Empty, Private: r.Private}, err
}

// Issue reads an issue, without its blockers.
func (d *Desk) Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error) {
	var in gitea.Issue
	err := d.api.Get(ctx, at(ref.Repo, "/issues/%d", ref.Number), &in)
	return issueOf(ref.Repo, &in, time.Time{}), err
}

// Comments reads the comments on an issue or pull request, oldest first. Forgejo does not page this list: it always
// answers with all comments.
func (d *Desk) Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error) {
	var wire []gitea.Comment
	err := d.api.Get(ctx, at(ref.Repo, "/issues/%d/comments", ref.Number), &wire)
	all := make([]forge.Comment, len(wire))
	for i := range wire {
		all[i] = forge.Comment{ID: wire[i].ID, Author: loginOf(wire[i].Poster), Body: wire[i].Body}
	}
	return all, err
}

// Comment adds a comment to an issue or pull request. A repeated call adds another comment.
func (d *Desk) Comment(ctx context.Context, ref forge.Ref, body string) error {
	form := map[string]string{"body": body}
	return d.api.Post(ctx, at(ref.Repo, "/issues/%d/comments", ref.Number), form, nil)
}

// Pull reads a pull request, without its reviews and checks.
func (d *Desk) Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error) {
	var in gitea.PullRequest
	err := d.api.Get(ctx, at(ref.Repo, "/pulls/%d", ref.Number), &in)
	return deskPull(ref.Repo, &in), err
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
	path := at(repo, "/pulls?state=all&sort=recentupdate")
	wire, err := readUpTo[*gitea.PullRequest](ctx, d.api.Page, path, maxPulls)
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
	var made struct{ Number int64 }
	form := map[string]string{"title": p.Title, "body": p.Body, "head": p.Head, "base": p.Base}
	err = d.api.Post(ctx, at(p.Repo, "/pulls"), form, &made)
	if !errors.Is(err, forge.ErrConflict) {
		return made.Number, err
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
	path := at(pull.Repo, "/pulls/%d/reviews", pull.Number)
	wire, err := readUpTo[*gitea.PullReview](ctx, d.api.Page, path, maxReviews)
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
			if full.Lines, err = d.lines(ctx, path+"/"+strconv.FormatInt(r.ID, 10)+"/comments"); err != nil {
				return nil, err
			}
		}
		all = append(all, full)
	}
	return all, nil
}

// lines reads the line comments of one review. The forge answers 404 if they were all deleted.
func (d *Desk) lines(ctx context.Context, path string) (all []forge.LineComment, err error) {
	var wire []gitea.PullReviewComment
	if err := d.api.Get(ctx, path, &wire); err != nil && !errors.Is(err, forge.ErrNotFound) {
		return nil, err
	}
	for _, c := range wire {
		all = append(all, forge.LineComment{
			Author: loginOf(c.Reviewer), Path: c.Path, Line: int64(max(c.LineNum, c.OldLineNum)), Body: c.Body,
		})
	}
	return all, nil
}

// PostReview submits a review of exactly the commit that it names. A repeated call submits another review.
func (d *Desk) PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error {
	comments := make([]map[string]any, len(r.Lines))
	for i, c := range r.Lines {
		comments[i] = map[string]any{"path": c.Path, "new_position": c.Line, "body": c.Body}
	}
	event := map[forge.Verdict]gitea.ReviewStateType{
		forge.Approved: gitea.ReviewStateApproved, forge.ChangesRequested: gitea.ReviewStateRequestChanges,
		forge.Commented: gitea.ReviewStateComment,
	}[r.Verdict]
	form := map[string]any{"event": event, "commit_id": r.CommitSHA, "body": r.Body, "comments": comments}
	return d.api.Post(ctx, at(pull.Repo, "/pulls/%d/reviews", pull.Number), form, nil)
}

// Checks returns the failed checks of a commit, sorted by name, each with its latest report.
func (d *Desk) Checks(ctx context.Context, repo, sha string) ([]forge.Check, error) {
	var combined gitea.CombinedStatus
	if err := d.api.Get(ctx, at(repo, "/commits/%s/status", sha), &combined); err != nil {
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
	return d.api.Text(ctx, "/"+repo+page+"/logs")
}

// File reads a file of a repository's default branch.
func (d *Desk) File(ctx context.Context, repo, path string) (string, error) {
	var text []byte
	err := d.api.Call(ctx, http.MethodGet, at(repo, "/raw/%s", (&url.URL{Path: path}).EscapedPath()), nil, &text)
	return string(text), err
}

// Folder lists the names of the files in a folder of a repository's default branch, sorted.
func (d *Desk) Folder(ctx context.Context, repo, path string) (names []string, err error) {
	var files []gitea.ContentsResponse
	if err := d.api.Get(ctx, at(repo, "/contents/%s", path), &files); err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Type == "file" {
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
		form := map[string]any{"message": message, "files": files}
		if err = d.api.Post(ctx, at(repo, "/contents"), form, nil); err == nil {
			return nil
		}
	}
	return err
}

// changeOf turns an edit into a change for the API, which requires the SHA of the file version to be replaced.
func (d *Desk) changeOf(ctx context.Context, repo string, e forge.Edit) (fileChange, error) {
	now, err := file(ctx, &d.api, repo, e.Path)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return fileChange{}, err
	}
	if e.Append {
		e.Text = now.Text + e.Text
	}
	return changeOf(forge.File{Path: e.Path, Text: e.Text, SHA: now.SHA}), nil
}

// file reads a file of a repository's default branch, with the SHA of its content.
func file(ctx context.Context, api *rest.API, repo, path string) (forge.File, error) {
	var f struct{ SHA, Content string }
	if err := api.Get(ctx, at(repo, "/contents/%s", path), &f); err != nil {
		return forge.File{}, err
	}
	text, err := base64.StdEncoding.DecodeString(f.Content)
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
