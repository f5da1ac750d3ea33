package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/rest"
)

// This file is what a session reads of the forge and writes to it, as the agent's own account.

type wireUser struct {
	Login string `json:"login"`
}

type wireIssue struct {
	Number int64    `json:"number"`
	Title  string   `json:"title"`
	Body   string   `json:"body"`
	User   wireUser `json:"user"`
}

type wireBranch struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo struct {
		FullName string `json:"full_name"`
	} `json:"repo"`
}

type wirePull struct {
	wireIssue
	State     string     `json:"state"`
	Mergeable bool       `json:"mergeable"`
	Head      wireBranch `json:"head"`
	Base      wireBranch `json:"base"`
}

type wireComment struct {
	Body string   `json:"body"`
	User wireUser `json:"user"`
}

type wireReview struct {
	ID        int64    `json:"id"`
	State     string   `json:"state"`
	Body      string   `json:"body"`
	User      wireUser `json:"user"`
	Dismissed bool     `json:"dismissed"`
	Comments  int      `json:"comments_count"`
}

type wireInline struct {
	Path string `json:"path"`
	Body string `json:"body"`
	Line int64  `json:"position"`
	Old  int64  `json:"original_position"`
}

type wireStatus struct {
	State       string `json:"status"`
	Context     string `json:"context"`
	Description string `json:"description"`
	URL         string `json:"target_url"`
}

// path is a place in the API below the repository.
func (s *session) path(format string, args ...any) string {
	return "/repos/" + s.Repo + fmt.Sprintf(format, args...)
}

// maxPages bounds a listing: comments beyond 150 are not read by a model either. Forgejo's pages have 50 at most.
const maxPages = 3

// list reads a listing of the API, page by page.
func list[T any](ctx context.Context, a *rest.API, path string) (all []T, err error) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for page := 1; page <= maxPages; page++ {
		var some []T
		if err := a.Get(ctx, path+separator+"limit=50&page="+strconv.Itoa(page), &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < 50 {
			break
		}
	}
	return all, nil
}

// base is the repository's default branch.
func (s *session) base(ctx context.Context) (string, error) {
	var repo struct {
		Branch string `json:"default_branch"`
	}
	if err := s.api.Get(ctx, s.path(""), &repo); err != nil {
		return "", err
	}
	if !branchLike(repo.Branch) {
		return "", fmt.Errorf("cannot work on a repository whose default branch is %q", repo.Branch)
	}
	return repo.Branch, nil
}

func (s *session) pull(ctx context.Context) (p wirePull, err error) {
	if err = s.api.Get(ctx, s.path("/pulls/%d", s.Number), &p); err != nil {
		return p, err
	}
	if !branchLike(p.Head.Ref) || !branchLike(p.Base.Ref) || !hexLike(p.Head.SHA) {
		return p, fmt.Errorf("cannot work on pull request #%d from %q to %q at %q", s.Number, p.Head.Ref, p.Base.Ref, p.Head.SHA)
	}
	return p, nil
}

// branchLike keeps what the forge calls a branch from being an option of git, or another kind of ref.
func branchLike(name string) bool {
	odd := func(r rune) bool { return r <= ' ' || strings.ContainsRune(`~^:?*[\`, r) || r == 0x7f }
	return name != "" && name[0] != '-' && !strings.ContainsFunc(name, odd) && !strings.Contains(name, "..") && !strings.Contains(name, "@{")
}

func hexLike(sha string) bool {
	return len(sha) >= 40 && strings.Trim(sha, "0123456789abcdef") == ""
}

func (s *session) comments(ctx context.Context) ([]remark, error) {
	wire, err := list[wireComment](ctx, s.api, s.path("/issues/%d/comments", s.Number))
	var all []remark
	for _, c := range wire {
		if strings.TrimSpace(c.Body) != "" {
			all = append(all, remark{c.User.Login, quoted(cut(c.Body, maxRemark))})
		}
	}
	return all, err
}

// Bytes of one text in a prompt. What is longer is a log that somebody pasted.
const (
	maxBody   = 40 << 10
	maxRemark = 8 << 10
	maxDiff   = 120 << 10
)

// issuesOf are the issues of this repository that a pull request is for. One that cannot be read is left out: the work is
// to be done all the same.
func (s *session) issuesOf(ctx context.Context, p *wirePull) (all []issueText) {
	for _, ref := range forge.Closes(p.Head.Ref, p.Title, p.Body, s.Repo) {
		var is wireIssue
		if ref.Repo == s.Repo && s.api.Get(ctx, s.path("/issues/%d", ref.Number), &is) == nil {
			all = append(all, issueText{is.Number, quoted(is.Title), quoted(cut(is.Body, maxBody))})
		}
	}
	return all
}

// reviews are the formal reviews of the pull request that say something and are not dismissed, with their inline
// comments.
func (s *session) reviews(ctx context.Context) ([]reviewText, error) {
	wire, err := list[wireReview](ctx, s.api, s.path("/pulls/%d/reviews", s.Number))
	if err != nil {
		return nil, err
	}
	var all []reviewText
	for _, v := range wire {
		if v.Dismissed || v.State == "PENDING" || v.State == "REQUEST_REVIEW" {
			continue
		}
		text := reviewText{Author: v.User.Login, State: v.State, Body: quoted(cut(v.Body, maxRemark))}
		if v.Comments > 0 {
			var inlines []wireInline
			err := s.api.Get(ctx, s.path("/pulls/%d/reviews/%d/comments", s.Number, v.ID), &inlines)
			if err != nil && !errors.Is(err, forge.ErrNotFound) {
				return nil, err
			}
			for _, in := range inlines {
				text.Inline = append(text.Inline, inlineText{firstWords(in.Path), max(in.Line, in.Old), quoted(cut(in.Body, maxRemark))})
			}
		}
		all = append(all, text)
	}
	return all, nil
}

// checks are what did not succeed on a commit: of each check, what it reported last.
func (s *session) checks(ctx context.Context, sha string) ([]check, error) {
	var combined struct {
		Statuses []wireStatus `json:"statuses"`
	}
	if err := s.api.Get(ctx, s.path("/commits/%s/status", sha), &combined); err != nil {
		return nil, err
	}
	var all []check
	for _, st := range combined.Statuses {
		if st.State == "failure" || st.State == "error" {
			all = append(all, check{firstWords(st.Context), st.State, quoted(cut(st.Description, maxRemark)), firstWords(st.URL), s.checkLog(ctx, st.URL)})
		}
	}
	slices.SortFunc(all, func(a, b check) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// openPull makes the pull request of a branch, or finds the one that is there: there is one per head.
func (s *session) openPull(ctx context.Context, head, base, title, body string) (number int64, err error) {
	var made wireIssue
	form := map[string]string{"title": title, "body": body, "head": head, "base": base}
	err = s.api.Post(ctx, s.path("/pulls"), form, &made)
	if !errors.Is(err, forge.ErrConflict) {
		return made.Number, err
	}
	pulls, listErr := s.pullsOf(ctx, head)
	for _, p := range pulls {
		if listErr == nil && p.State == "open" {
			return p.Number, nil
		}
	}
	return 0, err
}

// pullsOf are the pull requests that have this branch as their head, open or not, of the youngest 150.
func (s *session) pullsOf(ctx context.Context, head string) ([]wirePull, error) {
	all, err := list[wirePull](ctx, s.api, s.path("/pulls?state=all&sort=recentupdate"))
	return slices.DeleteFunc(all, func(p wirePull) bool {
		return p.Head.Ref != head || p.Head.Repo.FullName != "" && !strings.EqualFold(p.Head.Repo.FullName, s.Repo)
	}), err
}

// comment writes on the session's issue or pull request.
func (s *session) comment(ctx context.Context, body string) error {
	return s.api.Post(ctx, s.path("/issues/%d/comments", s.Number), map[string]string{"body": body}, nil)
}

// review posts a formal review of exactly this commit.
func (s *session) postReview(ctx context.Context, sha string, v *verdict, on []inline, body string) error {
	event := "REQUEST_CHANGES"
	if v.Approve {
		event = "APPROVED"
	}
	comments := make([]map[string]any, len(on))
	for i, c := range on {
		comments[i] = map[string]any{"path": c.Path, "new_position": c.Line, "body": c.Body}
	}
	form := map[string]any{"event": event, "commit_id": sha, "body": body, "comments": comments}
	return s.api.Post(ctx, s.path("/pulls/%d/reviews", s.Number), form, nil)
}

// file reads a file of a repository's default branch; nil when there is none.
func (s *session) file(ctx context.Context, repo, path string) ([]byte, error) {
	var text []byte
	err := s.api.Call(ctx, http.MethodGet, "/repos/"+repo+"/raw/"+(&url.URL{Path: path}).EscapedPath(), nil, &text)
	if errors.Is(err, forge.ErrNotFound) {
		return nil, nil
	}
	if text == nil {
		text = []byte{}
	}
	return text, err
}
