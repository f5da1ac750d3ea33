package localforge

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// contentChange is a commit to be made without a work tree.
type contentChange struct {
	branch  string // "" for the default branch
	onto    string // new branch for the commit; "" to commit to branch
	message string
	by      *user
	files   []fileChange
}

type fileChange struct {
	operation string // create, update or delete; "" for create or update
	path      string
	sha       string // SHA of the blob to be replaced; "" for no check
	body      []byte
}

// contentForm is the body of every request that writes files. Requests for a single file use Content and SHA; a batch
// uses Files.
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
	file := fileChange{operation: operation, path: c.r.PathValue("path"), sha: form.SHA, body: body}
	if form.Message == "" {
		form.Message = verb + " " + file.path
	}
	answer, err := c.changeContents(form, []fileChange{file})
	if err != nil {
		return nil, err
	}
	return map[string]any{"content": answer.files[0], "commit": answer.commit}, nil
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
	return map[string]any{"files": answer.files, "commit": answer.commit}, nil
}

type changedContents struct {
	files  []*wireContent
	commit *wireCommitMeta
}

// changeContents checks the caller's permission, commits, and describes the result.
func (c *call) changeContents(form contentForm, files []fileChange) (changedContents, error) {
	var done changedContents
	change := contentChange{branch: form.Branch, onto: form.NewBranch, message: form.Message, by: c.doer, files: files}
	if err := c.mayCommit(&change); err != nil {
		return done, err
	}
	sha, err := c.f.commitFiles(context.WithoutCancel(c.r.Context()), c.repo, change)
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
	done.commit = &wireCommitMeta{SHA: sha}
	return done, nil
}

// mayCommit sets the branch and checks that the caller can push to it.
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

// commitFiles makes a commit and returns its hash.
func (f *Forge) commitFiles(ctx context.Context, r *repo, change contentChange) (string, error) {
	for _, file := range change.files {
		if clean := path.Clean("/" + file.path)[1:]; clean != file.path || file.path == "" ||
			strings.Contains("/"+file.path+"/", "/.git/") || strings.ContainsAny(file.path, "\x00\n\"") {
			return "", fail(http.StatusUnprocessableEntity, "path is not valid [path: %s]", file.path)
		}
	}
	target := change.branch
	if change.onto != "" {
		target = change.onto
	}
	if err := f.checkBranchName(ctx, r, target); err != nil {
		return "", err
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
		var made bytes.Buffer
		err := f.gitIO(ctx, Cmd{Dir: r.dir, Stdin: stream, Stdout: &made}, "fast-import", "--quiet", "--date-format=raw")
		sha = strings.TrimSpace(made.String())
		return err
	}, nil)
	return sha, err
}

// checkBlobs rejects creating a file that exists, and changing a file that does not exist or whose SHA is not the one
// in the request.
func (f *Forge) checkBlobs(ctx context.Context, r *repo, from string, files []fileChange) error {
	for _, file := range files {
		if file.operation == "" {
			continue
		}
		var sha string
		if from != "" {
			sha, _ = f.blobOf(ctx, r, from, file.path)
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

// importStream returns the commit as input for git fast-import, which creates blobs, tree, commit and branch in one
// process, and prints the commit.
func importStream(change contentChange, target, from string, now int64) *bytes.Buffer {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit refs/heads/%s\nmark :1\n", target)
	name, mail := change.by.signature()
	fmt.Fprintf(&b, "committer %s <%s> %d +0000\n", name, mail, now)
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
	b.WriteString("get-mark :1\ndone\n")
	return &b
}
