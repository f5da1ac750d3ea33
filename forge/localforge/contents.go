package localforge

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

var contentRoutes = []route{
	{method: "GET", pattern: "/repos/{owner}/{repo}/contents", scope: scopeRepository, status: 200, do: getContents, free: true},
	{method: "POST", pattern: "/repos/{owner}/{repo}/contents", scope: scopeRepository, need: signedIn, status: 201, do: changeFiles, free: true},
	{method: "GET", pattern: "/repos/{owner}/{repo}/contents/{path...}", scope: scopeRepository, status: 200, do: getContents, free: true},
	{method: "POST", pattern: "/repos/{owner}/{repo}/contents/{path...}", scope: scopeRepository, need: signedIn, status: 201, do: createFile, free: true},
	{method: "PUT", pattern: "/repos/{owner}/{repo}/contents/{path...}", scope: scopeRepository, need: signedIn, status: 200, do: updateFile, free: true},
	{method: "DELETE", pattern: "/repos/{owner}/{repo}/contents/{path...}", scope: scopeRepository, need: signedIn, status: 200, do: removeFile, free: true},
	{method: "GET", pattern: "/repos/{owner}/{repo}/raw/{path...}", scope: scopeRepository, status: 200, do: getRaw, free: true},
	{method: "GET", pattern: "/repos/{owner}/{repo}/media/{path...}", scope: scopeRepository, status: 200, do: getRaw, free: true},
}

// contentChange is a commit to be made without a work tree.
type contentChange struct {
	branch  string // "" for the default branch
	onto    string // a new branch to put the commit on; "" for the same
	message string
	by      *user
	files   []fileChange
}

type fileChange struct {
	operation string // create, update, delete; "" for whatever it takes
	path      string
	sha       string // of the blob that is replaced; "" to not check
	body      []byte
}

// contentForm is the body of all requests that write files. The single-file
// ones have content and sha, the batch has files.
type contentForm struct {
	Message   string `json:"message"`
	Branch    string `json:"branch"`
	NewBranch string `json:"new_branch"`
	Content   string `json:"content"`
	SHA       string `json:"sha"`
	Files     []struct {
		Operation string `json:"operation"`
		Path      string `json:"path"`
		Content   string `json:"content"`
		SHA       string `json:"sha"`
	} `json:"files"`
}

func createFile(c *call) (any, error) { return changeOneFile(c, "create", "Add") }
func updateFile(c *call) (any, error) { return changeOneFile(c, "update", "Update") }
func removeFile(c *call) (any, error) { return changeOneFile(c, "delete", "Delete") }

func changeOneFile(c *call, operation, verb string) (any, error) {
	var form contentForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if operation != "create" && form.SHA == "" {
		return nil, missing("SHA")
	}
	body, err := base64.StdEncoding.DecodeString(form.Content)
	if err != nil {
		return nil, fail(http.StatusUnprocessableEntity, "%v", err)
	}
	file := fileChange{operation: operation, path: c.params["path"], sha: form.SHA, body: body}
	if form.Message == "" {
		form.Message = verb + " " + file.path
	}
	answer, err := c.changeContents(form, []fileChange{file})
	if err != nil {
		return nil, err
	}
	if operation == "delete" {
		return map[string]any{"content": nil, "commit": answer.commit, "verification": nil}, nil
	}
	return map[string]any{"content": answer.files[0], "commit": answer.commit, "verification": nil}, nil
}

func changeFiles(c *call) (any, error) {
	var form contentForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if len(form.Files) == 0 {
		return nil, missing("Files")
	}
	var files []fileChange
	for _, asked := range form.Files {
		body, err := base64.StdEncoding.DecodeString(asked.Content)
		if err != nil {
			return nil, fail(http.StatusUnprocessableEntity, "%v", err)
		}
		if !slices.Contains([]string{"create", "update", "delete"}, asked.Operation) {
			return nil, fail(http.StatusUnprocessableEntity, "invalid operation: %q", asked.Operation)
		}
		files = append(files, fileChange{operation: asked.Operation, path: asked.Path, sha: asked.SHA, body: body})
	}
	if form.Message == "" {
		form.Message = "Change files"
	}
	answer, err := c.changeContents(form, files)
	if err != nil {
		return nil, err
	}
	return map[string]any{"files": answer.files, "commit": answer.commit, "verification": nil}, nil
}

type changedContents struct {
	files  []*wireContent
	commit *wireFileCommit
}

// changeContents checks permission, commits and describes what it made.
func (c *call) changeContents(form contentForm, files []fileChange) (changedContents, error) {
	var done changedContents
	change := contentChange{branch: form.Branch, onto: form.NewBranch, message: form.Message, by: c.doer, files: files}
	if err := c.mayCommit(&change); err != nil {
		return done, err
	}
	sha, err := c.f.commitFiles(c.r.Context(), c.repo, change)
	if err != nil {
		return done, err
	}
	for _, file := range files {
		var wire *wireContent
		if file.operation != "delete" {
			if wire, err = c.content(sha, file.path); err != nil {
				return done, err
			}
		}
		done.files = append(done.files, wire)
	}
	commits, err := c.f.log(c.r.Context(), c.repo.dir, "-1", sha)
	if err != nil {
		return done, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	done.commit = c.fileCommit(c.repo, commits[0])
	return done, nil
}

// mayCommit fills in the branch and says whether the caller may push to it.
func (c *call) mayCommit(change *contentChange) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if change.branch == "" {
		change.branch = c.repo.defaultBranch
	}
	target := change.branch
	if change.onto != "" && change.onto != change.branch {
		target = change.onto
		if c.repo.branch(target) != "" {
			return fail(http.StatusUnprocessableEntity, "branch already exists [name: %s]", target)
		}
	}
	if c.access < accessWrite || !c.repo.protectionOf(target).mayPush(c.doer, c.access) {
		return fail(http.StatusForbidden, "user should have a permission to write to this branch")
	}
	if c.repo.branch(change.branch) == "" && !c.repo.empty() {
		return fail(http.StatusNotFound, "branch does not exist [name: %s]", change.branch)
	}
	return nil
}

// commitFiles makes a commit and returns it.
func (f *Forge) commitFiles(ctx context.Context, r *repo, change contentChange) (string, error) {
	for _, file := range change.files {
		if clean := path.Clean("/" + file.path)[1:]; clean != file.path || file.path == "" || strings.Contains("/"+file.path+"/", "/.git/") || strings.ContainsAny(file.path, "\x00\n\"") {
			return "", fail(http.StatusUnprocessableEntity, "path is not valid [path: %s]", file.path)
		}
	}
	target := change.branch
	if change.onto != "" {
		target = change.onto
	}
	f.mu.Lock()
	v := view{f: f, base: f.lastURL, doer: change.by}
	f.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	var sha string
	err := f.move(ctx, v, r, func() error {
		f.mu.Lock()
		from, now := r.branch(change.branch), f.opt.Now()
		f.mu.Unlock()
		if err := f.checkBlobs(ctx, r, from, change.files); err != nil {
			return err
		}
		stream := importStream(change, target, from, now.Unix())
		if err := f.gitIO(ctx, Cmd{Dir: r.dir, Stdin: stream}, "fast-import", "--quiet", "--date-format=raw"); err != nil {
			return err
		}
		var err error
		sha, err = f.git(ctx, r.dir, "rev-parse", "refs/heads/"+target)
		return err
	}, nil)
	return sha, err
}

// checkBlobs refuses to create what is there, and to change what is not there
// or is not what the client has seen.
func (f *Forge) checkBlobs(ctx context.Context, r *repo, from string, files []fileChange) error {
	for _, file := range files {
		if file.operation == "" {
			continue
		}
		var sha string
		if from != "" {
			sha, _ = f.git(ctx, r.dir, "rev-parse", "--verify", "--quiet", from+":"+file.path)
		}
		switch {
		case file.operation == "create" && sha != "":
			return fail(http.StatusUnprocessableEntity, "repository file already exists [path: %s]", file.path)
		case file.operation != "create" && sha == "":
			return fail(http.StatusNotFound, "repository file does not exist [path: %s]", file.path)
		case file.operation != "create" && file.sha != "" && file.sha != sha:
			return fail(http.StatusUnprocessableEntity, "sha does not match [given: %s, expected: %s]", file.sha, sha)
		}
	}
	return nil
}

// importStream is the commit in the language of git fast-import, which makes
// blobs, tree, commit and branch in one process.
func importStream(change contentChange, target, from string, now int64) *bytes.Buffer {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit refs/heads/%s\n", target)
	fmt.Fprintf(&b, "committer %s <%s> %d +0000\n", change.by.displayName(), change.by.email, now)
	fmt.Fprintf(&b, "data %d\n%s\n\n", len(change.message)+1, change.message)
	if from != "" {
		fmt.Fprintf(&b, "from %s\n", from)
	}
	for _, file := range change.files {
		if file.operation == "delete" {
			fmt.Fprintf(&b, "D %s\n", file.path)
			continue
		}
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n", file.path, len(file.body))
		b.Write(file.body)
		b.WriteByte('\n')
	}
	b.WriteString("done\n")
	return &b
}

type wireContent struct {
	Name        string  `json:"name"`
	Path        string  `json:"path"`
	SHA         string  `json:"sha"`
	LastCommit  string  `json:"last_commit_sha"`
	Type        string  `json:"type"`
	Size        int64   `json:"size"`
	Encoding    *string `json:"encoding"`
	Content     *string `json:"content"`
	Target      *string `json:"target"`
	URL         string  `json:"url"`
	HTMLURL     string  `json:"html_url"`
	GitURL      string  `json:"git_url"`
	DownloadURL string  `json:"download_url"`
}

// resolveRef is the commit a "ref" parameter means; none means the default branch.
func (c *call) resolveRef() (string, error) {
	c.f.mu.Lock()
	name := c.r.URL.Query().Get("ref")
	if name == "" {
		name = c.repo.defaultBranch
	}
	sha := c.repo.branch(name)
	c.f.mu.Unlock()
	if sha != "" {
		return sha, nil
	}
	sha, err := c.f.git(c.r.Context(), c.repo.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", notFound()
	}
	return sha, nil
}

// getContents shows a file with its content, or the list of a folder without.
func getContents(c *call) (any, error) {
	at, err := c.resolveRef()
	if err != nil {
		return nil, err
	}
	name := strings.Trim(c.params["path"], "/")
	if name != "" {
		kind, err := c.f.git(c.r.Context(), c.repo.dir, "cat-file", "-t", at+":"+name)
		if err != nil {
			return nil, notFound()
		}
		if kind == "blob" {
			return c.content(at, name)
		}
		name += "/"
	}
	return c.listFolder(at, name)
}

// listFolder lists what is in a folder; its name ends in a slash or is empty.
func (c *call) listFolder(at, folder string) (any, error) {
	args := []string{"ls-tree", "-z", "--long", at}
	if folder != "" {
		args = append(args, "--", folder)
	}
	out, err := c.f.git(c.r.Context(), c.repo.dir, args...)
	if err != nil {
		return nil, err
	}
	list := []*wireContent{}
	for entry := range strings.SplitSeq(strings.TrimRight(out, "\x00"), "\x00") {
		about, name, ok := strings.Cut(entry, "\t")
		field := strings.Fields(about)
		if !ok || len(field) < 4 {
			continue
		}
		wire := c.describe(at, name, field[2])
		wire.Size, _ = strconv.ParseInt(field[3], 10, 64)
		if field[1] == "tree" {
			wire.Type = "dir"
		}
		list = append(list, wire)
	}
	return list, nil
}

func (c *call) describe(at, name, sha string) *wireContent {
	page := c.base + "/" + c.repo.fullName()
	return &wireContent{
		Name: path.Base(name), Path: name, SHA: sha, LastCommit: at, Type: "file",
		URL: c.apiURL(c.repo) + "/contents/" + name + "?ref=" + at, HTMLURL: page + "/src/commit/" + at + "/" + name,
		GitURL: c.apiURL(c.repo) + "/git/blobs/" + sha, DownloadURL: page + "/raw/commit/" + at + "/" + name,
	}
}

// content is one file with what is in it.
func (c *call) content(at, name string) (*wireContent, error) {
	sha, err := c.f.git(c.r.Context(), c.repo.dir, "rev-parse", "--verify", "--quiet", at+":"+name)
	if err != nil {
		return nil, notFound()
	}
	body, err := c.blob(sha)
	if err != nil {
		return nil, err
	}
	wire := c.describe(at, name, sha)
	encoding, text := "base64", base64.StdEncoding.EncodeToString(body)
	wire.Size, wire.Encoding, wire.Content = int64(len(body)), &encoding, &text
	return wire, nil
}

func (c *call) blob(sha string) ([]byte, error) {
	var body bytes.Buffer
	err := c.f.gitIO(c.r.Context(), Cmd{Dir: c.repo.dir, Stdout: &body}, "cat-file", "blob", sha)
	return body.Bytes(), err
}

func getRaw(c *call) (any, error) {
	at, err := c.resolveRef()
	if err != nil {
		return nil, err
	}
	body, err := c.blob(at + ":" + c.params["path"])
	if err != nil {
		return nil, notFound()
	}
	return raw{"text/plain; charset=utf-8", body}, nil
}
