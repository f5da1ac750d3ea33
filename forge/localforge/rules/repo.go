package rules

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// repo is a repository with its owner, who makes the requests that are not under test.
type repo struct {
	w     *world
	owner *account
	name  string
	dir   string // the folder with the commits of code, which other rules share
}

// at returns an API path below the repository.
func (r *repo) at(format string, args ...any) string {
	return "/repos/" + r.fullName() + fmt.Sprintf(format, args...)
}

func (r *repo) fullName() string { return r.owner.name + "/" + r.name }

// repo makes a public repository without a commit, which is enough for issues, and its owner.
func (w *world) repo() *repo {
	w.Helper()
	return w.account("owner").repo("harb", nil)
}

// code makes a public repository with a commit on main, and its owner. Each named branch has one more commit, which
// adds a file of its own. All are in one push, because each request that moves refs costs a real server 0.4 s of CPU
// time.
func (w *world) code(branches ...string) *repo {
	w.Helper()
	r := w.account("owner").repo("harb", fields{"default_branch": "main"})
	r.dir = w.made.checkout(w, r.owner, branches)
	r.owner.git(r.dir, "push", "--quiet", r.url(), "--all")
	// The forge notices a first push late, and refuses pull requests before that.
	w.eventually("the repository is no longer empty", func() bool { return !r.empty() })
	return r
}

// checkout returns a folder with the commits of code. Rules with the same branches share it, because a commit costs
// three processes; the author of the commits is the owner in the first of these rules.
func (l *cleanup) checkout(w *world, by *account, branches []string) string {
	w.Helper()
	l.committing.Lock()
	defer l.committing.Unlock()
	key := strings.Join(branches, " ")
	if dir, known := l.checkouts[key]; known {
		return dir
	}
	dir := l.tempDir()
	git := func(args ...string) { w.Helper(); by.git(dir, args...) }
	write := func(path string) {
		w.Helper()
		file := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(path+"\n"), 0o644)); err != nil {
			w.Fatal(err)
		}
		git("add", path)
		git("commit", "--quiet", "--message", "write "+path)
	}
	git("init", "--quiet", "--initial-branch=main", ".")
	write("README.md")
	for _, branch := range branches {
		git("checkout", "--quiet", "-b", branch, "main")
		write(fileOf(branch))
	}
	l.checkouts[key] = dir
	return dir
}

// empty reports whether the forge shows the repository as one without commits.
func (r *repo) empty() bool {
	r.w.Helper()
	return read[struct {
		Empty bool `json:"empty"`
	}](r.owner, r.at("")).Empty
}

// fileOf returns the path of the file that a branch of code adds.
func fileOf(branch string) string { return "of-" + branch + ".txt" }

// repo makes a repository owned by this account.
func (a *account) repo(name string, more fields) *repo {
	a.w.Helper()
	form := fields{"name": name}
	maps.Copy(form, more)
	a.post("/user/repos", form).want(http.StatusCreated)
	r := &repo{w: a.w, owner: a, name: name}
	a.w.made.repo(r.fullName())
	return r
}

// writer makes an account with write access to the repository, as agents have.
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
	return decode[label](r.owner.post(r.at("/labels"), fields{"name": name, "color": "#00aabb"}).want(http.StatusCreated)).
		ID
}

// open files an issue as the owner and returns its number.
func (r *repo) open(title string, more ...fields) int64 {
	r.w.Helper()
	form := fields{"title": title}
	for _, m := range more {
		maps.Copy(form, m)
	}
	return decode[issue](r.owner.post(r.at("/issues"), form).want(http.StatusCreated)).Number
}

// issue reads an issue, or a pull request as an issue.
func (r *repo) issue(n int64) issue {
	r.w.Helper()
	return read[issue](r.owner, r.at("/issues/%d", n))
}

// list reads a list of issues.
func (r *repo) list(query string) []issue {
	r.w.Helper()
	return read[[]issue](r.owner, r.at("/issues?limit=50&%s", query))
}

// edit changes an issue. Forgejo answers 201, although other APIs answer an edit with 200.
func (r *repo) edit(n int64, change fields) issue {
	r.w.Helper()
	return decode[issue](r.owner.patch(r.at("/issues/%d", n), change).want(http.StatusCreated))
}

// comment writes a comment as the owner.
func (r *repo) comment(n int64, text string) {
	r.w.Helper()
	r.owner.post(r.at("/issues/%d/comments", n), fields{"body": text}).want(http.StatusCreated)
}

// addLabels adds labels by name.
func (r *repo) addLabels(n int64, names ...string) {
	r.w.Helper()
	r.owner.post(r.at("/issues/%d/labels", n), fields{"labels": names}).want(http.StatusOK)
}

// commit adds a file to a branch and returns the commit.
func (r *repo) commit(branch, path, text string) string {
	r.w.Helper()
	form := fields{"content": encode(text), "message": "write " + path, "branch": branch}
	return decode[written](r.owner.post(r.at("/contents/%s", path), form).want(http.StatusCreated)).Commit.SHA
}

// written is the answer to a change of a file.
type written struct {
	Commit struct {
		SHA string `json:"sha"`
	} `json:"commit"`
}

// encode encodes the content of a file as the API requires.
func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// overwrite changes an existing file and returns the commit.
func (r *repo) overwrite(branch, path, text string) string {
	r.w.Helper()
	old := read[struct {
		SHA string `json:"sha"`
	}](r.owner, r.at("/contents/%s?ref=%s", path, branch)).SHA
	form := fields{"content": encode(text), "message": "rewrite " + path, "branch": branch, "sha": old}
	return decode[written](r.owner.put(r.at("/contents/%s", path), form).want(http.StatusOK)).Commit.SHA
}
