package forgetest

import (
	"encoding/base64"
	"fmt"
	"net/http"
)

// repo is a repository and its owner, who does in it what the rule is not about.
type repo struct {
	w     *world
	owner *account
	name  string
}

// at is the API path of something in the repository.
func (r *repo) at(format string, args ...any) string {
	return "/repos/" + r.fullName() + fmt.Sprintf(format, args...)
}

func (r *repo) fullName() string { return r.owner.name + "/" + r.name }

// repo makes a public repository without any commit, which is enough for issues
// and takes a tenth of the time, and its owner.
func (w *world) repo() *repo {
	w.Helper()
	return w.account("owner").repo("harb", nil)
}

// code makes a public repository with a first commit on main, and its owner.
func (w *world) code() *repo {
	w.Helper()
	return w.account("owner").repo("harb", fields{"auto_init": true, "default_branch": "main"})
}

// repo makes a repository of this account.
func (a *account) repo(name string, more fields) *repo {
	a.w.Helper()
	form := fields{"name": name}
	for key, value := range more {
		form[key] = value
	}
	a.post("/user/repos", form).want(http.StatusCreated)
	r := &repo{w: a.w, owner: a, name: name}
	a.w.repos = append(a.w.repos, r)
	return r
}

// writer makes an account that may write to the repository, as agents may.
func (r *repo) writer(purpose string) *account {
	r.w.Helper()
	return r.collaborator(purpose, "write")
}

func (r *repo) collaborator(purpose, permission string) *account {
	r.w.Helper()
	a := r.w.account(purpose)
	r.owner.put(r.at("/collaborators/%s", a.name), fields{"permission": permission}).want(http.StatusNoContent)
	return a
}

// label makes a label and returns its id.
func (r *repo) label(name string) int64 {
	r.w.Helper()
	return decode[label](r.owner.post(r.at("/labels"), fields{"name": name, "color": "#00aabb"}).want(http.StatusCreated)).ID
}

// open files an issue in the owner's name and returns its number.
func (r *repo) open(title string, more ...fields) int64 {
	r.w.Helper()
	form := fields{"title": title}
	for _, m := range more {
		for key, value := range m {
			form[key] = value
		}
	}
	return decode[issue](r.owner.post(r.at("/issues"), form).want(http.StatusCreated)).Number
}

// issue reads an issue, or a pull request as the issue that it is too.
func (r *repo) issue(n int64) issue {
	r.w.Helper()
	return read[issue](r.owner, r.at("/issues/%d", n))
}

// list reads a list of issues.
func (r *repo) list(query string) []issue {
	r.w.Helper()
	return read[[]issue](r.owner, r.at("/issues?limit=50&%s", query))
}

// edit changes an issue. Forgejo answers 201, where everybody else says 200.
func (r *repo) edit(n int64, change fields) issue {
	r.w.Helper()
	return decode[issue](r.owner.patch(r.at("/issues/%d", n), change).want(http.StatusCreated))
}

// comment writes a comment in the owner's name.
func (r *repo) comment(n int64, text string) {
	r.w.Helper()
	r.owner.post(r.at("/issues/%d/comments", n), fields{"body": text}).want(http.StatusCreated)
}

// setLabels adds labels by name.
func (r *repo) addLabels(n int64, names ...string) {
	r.w.Helper()
	r.owner.post(r.at("/issues/%d/labels", n), fields{"labels": names}).want(http.StatusOK)
}

// commit writes a new file on a branch, which begins at from when that is given,
// and returns the commit.
func (r *repo) commit(branch, from, path, text string) string {
	r.w.Helper()
	return r.commitMessage(branch, from, path, text, "write "+path)
}

func (r *repo) commitMessage(branch, from, path, text, message string) string {
	r.w.Helper()
	form := fields{"content": encode(text), "message": message, "branch": branch}
	if from != "" {
		form["branch"], form["new_branch"] = from, branch
	}
	return decode[written](r.owner.post(r.at("/contents/%s", path), form).want(http.StatusCreated)).Commit.SHA
}

// written is the answer to a change of a file.
type written struct {
	Content *struct {
		SHA string `json:"sha"`
	} `json:"content"`
	Commit struct {
		SHA string `json:"sha"`
	} `json:"commit"`
}

// encode is how the API wants the content of files.
func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// overwrite writes a file that is there and returns the commit.
func (r *repo) overwrite(branch, path, text string) string {
	r.w.Helper()
	old := read[struct {
		SHA string `json:"sha"`
	}](r.owner, r.at("/contents/%s?ref=%s", path, branch)).SHA
	form := fields{"content": encode(text), "message": "rewrite " + path, "branch": branch, "sha": old}
	return decode[written](r.owner.put(r.at("/contents/%s", path), form).want(http.StatusOK)).Commit.SHA
}
