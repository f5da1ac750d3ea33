package localforge

import (
	"bytes"
	"encoding/base64"
	"path"
	"strconv"
	"strings"
)

var contentRoutes = []route{
	{"GET /repos/{owner}/{repo}/contents", scopeRepository, anyone, 200, getContents, runsGit},
	{"POST /repos/{owner}/{repo}/contents", scopeRepository, signedIn, 201, changeFiles, runsGit},
	{"GET /repos/{owner}/{repo}/contents/{path...}", scopeRepository, anyone, 200, getContents, runsGit},
	{"POST /repos/{owner}/{repo}/contents/{path...}", scopeRepository, signedIn, 201, createFile, runsGit},
	{"PUT /repos/{owner}/{repo}/contents/{path...}", scopeRepository, signedIn, 200, updateFile, runsGit},
	{"GET /repos/{owner}/{repo}/raw/{path...}", scopeRepository, anyone, 200, getRaw, runsGit},
}

type wireContent struct {
	Name     string  `json:"name"`
	Path     string  `json:"path"`
	SHA      string  `json:"sha"`
	Type     string  `json:"type"`
	Size     int64   `json:"size"`
	Encoding *string `json:"encoding"`
	Content  *string `json:"content"`
}

// resolveRef returns the commit of the parameter "ref", by default that of the default branch.
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
	sha, err := c.f.commitOf(c.r.Context(), c.repo, name)
	if err != nil {
		return "", notFound()
	}
	return sha, nil
}

// getContents shows a file with its content, or lists a folder.
func getContents(c *call) (any, error) {
	at, err := c.resolveRef()
	if err != nil {
		return nil, err
	}
	name := strings.Trim(c.r.PathValue("path"), "/")
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

// listFolder lists a folder; its name ends in a slash or is empty.
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
		wire := describe(name, field[2])
		wire.Size, _ = strconv.ParseInt(field[3], 10, 64)
		if field[1] == "tree" {
			wire.Type = "dir"
		}
		list = append(list, wire)
	}
	return list, nil
}

func describe(name, sha string) *wireContent {
	return &wireContent{Name: path.Base(name), Path: name, SHA: sha, Type: "file"}
}

// content returns a file with its content.
func (c *call) content(at, name string) (*wireContent, error) {
	sha, err := c.f.blobOf(c.r.Context(), c.repo, at, name)
	if err != nil {
		return nil, notFound()
	}
	body, err := c.blob(sha)
	if err != nil {
		return nil, err
	}
	wire := describe(name, sha)
	encoding, text := "base64", base64.StdEncoding.EncodeToString(body)
	wire.Size, wire.Encoding, wire.Content = int64(len(body)), &encoding, &text
	return wire, nil
}

// blob returns the content of a file by its hash, or by COMMIT:PATH.
func (c *call) blob(name string) ([]byte, error) {
	var body bytes.Buffer
	err := c.f.gitIO(c.r.Context(), Cmd{Dir: c.repo.dir, Stdout: &body}, "cat-file", "blob", name)
	return body.Bytes(), err
}

func getRaw(c *call) (any, error) {
	at, err := c.resolveRef()
	if err != nil {
		return nil, err
	}
	body, err := c.blob(at + ":" + c.r.PathValue("path"))
	if err != nil {
		return nil, notFound()
	}
	return raw{"text/plain; charset=utf-8", body}, nil
}
