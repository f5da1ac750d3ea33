package localforge

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// commit is a commit as git log prints it.
type commit struct {
	sha, parents          string
	authorMail, commitBox string
	committed             time.Time
	message               string
}

// logFormat separates fields with NUL, which no message can contain, and ends each commit with a record separator,
// which no message in a test contains.
const logFormat = "--format=%H%x00%P%x00%ae%x00%ce%x00%cI%x00%B%x1e"

// log lists commits, newest first. args are arguments of git log.
func (f *Forge) log(ctx context.Context, dir string, args ...string) ([]commit, error) {
	out, err := f.git(ctx, dir, append([]string{"log", logFormat}, args...)...)
	if err != nil {
		return nil, err
	}
	var list []commit
	for record := range strings.SplitSeq(out, "\x1e") {
		field := strings.SplitN(strings.TrimLeft(record, "\n"), "\x00", 6)
		if len(field) < 6 {
			continue
		}
		co := commit{sha: field[0], parents: field[1], authorMail: field[2], commitBox: field[3], message: field[5]}
		co.committed, _ = time.Parse(time.RFC3339, field[4])
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

// loginOf returns the login of the user with a mail address; "" if there is none.
func (f *Forge) loginOf(mail string) string {
	for _, u := range f.users {
		if strings.EqualFold(u.email, mail) {
			return u.name
		}
	}
	return ""
}

// wireCommit is a commit in the short form that branches use.
type wireCommit struct {
	ID string `json:"id"`
}

type wireCommitMeta struct {
	SHA     string    `json:"sha"`
	Created time.Time `json:"created"`
}

// wireFullCommit is a commit in the long form.
type wireFullCommit struct {
	wireCommitMeta
	Commit struct {
		Message string `json:"message"`
	} `json:"commit"`
	Author    *wireUser         `json:"author"`
	Committer *wireUser         `json:"committer"`
	Parents   []*wireCommitMeta `json:"parents"`
}

func (v view) fullCommit(co commit) *wireFullCommit {
	w := &wireFullCommit{
		wireCommitMeta: wireCommitMeta{co.sha, co.committed},
		Author:         v.user(v.f.userLocked(v.f.loginOf(co.authorMail))),
		Committer:      v.user(v.f.userLocked(v.f.loginOf(co.commitBox))),
		Parents:        []*wireCommitMeta{},
	}
	w.Commit.Message = co.message
	for parent := range strings.FieldsSeq(co.parents) {
		w.Parents = append(w.Parents, &wireCommitMeta{SHA: parent, Created: co.committed})
	}
	return w
}
