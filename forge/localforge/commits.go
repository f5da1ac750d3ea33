package localforge

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// commit is a commit as git log prints it.
type commit struct {
	sha, tree, parents   string
	author, authorMail   string
	authored             time.Time
	committer, commitBox string
	committed            time.Time
	message              string
}

// logFormat separates fields with NUL, which no message can contain, and ends each commit with a record separator,
// which no message in a test contains.
const logFormat = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B%x1e"

// log lists commits, newest first. args are arguments of git log.
func (f *Forge) log(ctx context.Context, dir string, args ...string) ([]commit, error) {
	out, err := f.git(ctx, dir, append([]string{"log", logFormat}, args...)...)
	if err != nil {
		return nil, err
	}
	var list []commit
	for record := range strings.SplitSeq(out, "\x1e") {
		field := strings.SplitN(strings.TrimLeft(record, "\n"), "\x00", 10)
		if len(field) < 10 {
			continue
		}
		co := commit{
			sha: field[0], tree: field[1], parents: field[2], author: field[3], authorMail: field[4],
			committer: field[6], commitBox: field[7], message: field[9],
		}
		co.authored, _ = time.Parse(time.RFC3339, field[5])
		co.committed, _ = time.Parse(time.RFC3339, field[8])
		list = append(list, co)
	}
	return list, nil
}

// commit returns one commit.
func (f *Forge) commit(ctx context.Context, r *repo, name string) (commit, error) {
	commits, err := f.log(ctx, r.dir, "-1", name, "--")
	if err == nil && len(commits) == 0 {
		err = fmt.Errorf("git log shows no commit %s", name)
	}
	if err != nil {
		return commit{}, err
	}
	return commits[0], nil
}

// span lists the commits of after that before lacks, newest first. before is "" for all commits.
func (f *Forge) span(ctx context.Context, r *repo, before, after string) ([]commit, error) {
	args := []string{after, "--"}
	if before != "" {
		args = []string{after, "^" + before, "--"}
	}
	return f.log(ctx, r.dir, args...)
}

type wireSigner struct {
	Name     string `json:"name"`
	Email    string `json:"email"`
	UserName string `json:"username"`
}

// wireCommit is a commit in the short form that branches and pushes use.
type wireCommit struct {
	ID           string      `json:"id"`
	Message      string      `json:"message"`
	URL          string      `json:"url"`
	Author       *wireSigner `json:"author"`
	Committer    *wireSigner `json:"committer"`
	Verification *struct{}   `json:"verification"`
	Timestamp    time.Time   `json:"timestamp"`
	Added        []string    `json:"added"`
	Removed      []string    `json:"removed"`
	Modified     []string    `json:"modified"`
}

// loginOf returns the login of the user with a mail address; "" if there is none.
func (f *Forge) loginOf(mail string) string {
	for _, u := range f.users {
		if strings.EqualFold(u.email, mail) {
			return u.name
		}
	}
	return ""
}

func (v view) commit(r *repo, co commit) *wireCommit {
	return &wireCommit{
		ID: co.sha, Message: co.message, URL: v.base + "/" + r.fullName() + "/commit/" + co.sha, Timestamp: co.authored,
		Author:    &wireSigner{co.author, co.authorMail, v.f.loginOf(co.authorMail)},
		Committer: &wireSigner{co.committer, co.commitBox, v.f.loginOf(co.commitBox)},
	}
}

type wireCommitMeta struct {
	URL     string    `json:"url"`
	SHA     string    `json:"sha"`
	Created time.Time `json:"created"`
}

type wireDated struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	Date  time.Time `json:"date"`
}

type wireRepoCommit struct {
	URL       string          `json:"url"`
	Author    *wireDated      `json:"author"`
	Committer *wireDated      `json:"committer"`
	Message   string          `json:"message"`
	Tree      *wireCommitMeta `json:"tree"`
}

// wireFullCommit is a commit in the long form that lists of commits use.
type wireFullCommit struct {
	wireCommitMeta
	HTMLURL   string            `json:"html_url"`
	Commit    *wireRepoCommit   `json:"commit"`
	Author    *wireUser         `json:"author"`
	Committer *wireUser         `json:"committer"`
	Parents   []*wireCommitMeta `json:"parents"`
}

func (v view) fullCommit(r *repo, co commit) *wireFullCommit {
	made := v.fileCommit(r, co)
	return &wireFullCommit{
		wireCommitMeta: made.wireCommitMeta,
		HTMLURL:        made.HTMLURL,
		Author:         v.user(v.f.userLocked(v.f.loginOf(co.authorMail))),
		Committer:      v.user(v.f.userLocked(v.f.loginOf(co.commitBox))),
		Parents:        made.Parents,
		Commit: &wireRepoCommit{
			URL: made.URL, Message: co.message, Tree: made.Tree, Author: made.Author,
			Committer: made.Committer,
		},
	}
}

// wireFileCommit is a commit in the form that answers about changed files use.
type wireFileCommit struct {
	wireCommitMeta
	HTMLURL   string            `json:"html_url"`
	Author    *wireDated        `json:"author"`
	Committer *wireDated        `json:"committer"`
	Parents   []*wireCommitMeta `json:"parents"`
	Message   string            `json:"message"`
	Tree      *wireCommitMeta   `json:"tree"`
}

func (v view) fileCommit(r *repo, co commit) *wireFileCommit {
	meta := func(kind, sha string) *wireCommitMeta {
		return &wireCommitMeta{URL: v.apiURL(r) + "/git/" + kind + "/" + sha, SHA: sha, Created: co.committed}
	}
	w := &wireFileCommit{
		wireCommitMeta: *meta("commits", co.sha),
		HTMLURL:        v.base + "/" + r.fullName() + "/commit/" + co.sha,
		Author:         &wireDated{co.author, co.authorMail, co.authored},
		Committer:      &wireDated{co.committer, co.commitBox, co.committed},
		Parents:        []*wireCommitMeta{},
		Message:        co.message,
		Tree:           meta("trees", co.tree),
	}
	for parent := range strings.FieldsSeq(co.parents) {
		w.Parents = append(w.Parents, meta("commits", parent))
	}
	return w
}
