package rules

import (
	"encoding/base64"
	"net/http"
	"strings"
)

var contentRules = []rule{
	{
		"a file can be created once",
		"agents/hire, which fills a profile and can be run again",
		makeFile,
	},
	{
		"changing a file requires the SHA of its content",
		"agents/hire, which never overwrites what an agent wrote meanwhile",
		changeFile,
	},
	{
		"the first commit can be a file",
		"agents/hire, when a profile repository is empty",
		firstFile,
	},
	{
		"one commit can contain several files",
		"agents/hire, which writes a whole profile at once",
		manyFiles,
	},
}

type content struct {
	Path    string `json:"path"`
	SHA     string `json:"sha"`
	Content string `json:"content"`
}

func (c content) text(w *world) string {
	w.Helper()
	text, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(c.Content, "\n", ""))
	if err != nil {
		w.Fatalf("content of %s: %v", c.Path, err)
	}
	return string(text)
}

func makeFile(w *world) {
	r := w.code()
	dev, reader := r.writer("dev"), r.collaborator("reader", "read")
	form := fields{"content": encode("one\n"), "message": "write", "branch": "main"}
	r.owner.get(r.at("/contents/folder/a.txt")).want(http.StatusNotFound)
	reader.post(r.at("/contents/folder/a.txt"), form).want(http.StatusForbidden)
	dev.post(r.at("/contents/folder/a.txt"), form).want(http.StatusCreated)
	dev.post(r.at("/contents/folder/a.txt"), form).want(http.StatusConflict, http.StatusUnprocessableEntity)
	same(w, "content", read[content](reader, r.at("/contents/folder/a.txt")).text(w), "one\n")
	same(w, "entries of the folder", len(read[[]content](reader, r.at("/contents/folder"))), 1)
	r.owner.get(r.at("/contents/folder/a.txt?ref=nonesuch")).want(http.StatusNotFound)
}

func changeFile(w *world) {
	r := w.code()
	path := r.at("/contents/a.txt")
	r.commit("main", "a.txt", "one")
	old := read[content](r.owner, path).SHA
	change := func(sha, text string) answer {
		return r.owner.put(path, fields{"content": encode(text), "message": "change", "branch": "main", "sha": sha})
	}
	change(old, "two").want(http.StatusOK)
	change(old, "three").want(http.StatusConflict, http.StatusUnprocessableEntity)
	change("", "three").want(http.StatusConflict, http.StatusUnprocessableEntity)
	same(w, "content", read[content](r.owner, path).text(w), "two")
}

func firstFile(w *world) {
	r := w.repo()
	r.commit("main", "README.md", "hello")
	same(w, "branches", r.branches(), "main")
	same(w, "content", read[content](r.owner, r.at("/contents/README.md")).text(w), "hello")
}

func manyFiles(w *world) {
	r := w.code()
	file := func(path string) fields {
		return fields{"operation": "create", "path": path, "content": encode(path)}
	}
	r.owner.post(r.at("/contents"), fields{
		"message": "profile", "branch": "main",
		"files": []fields{file("a.txt"), file("b/c.txt")},
	}).want(http.StatusCreated)
	for _, path := range []string{"a.txt", "b/c.txt"} {
		same(w, path, read[content](r.owner, r.at("/contents/%s", path)).text(w), path)
	}
	same(w, "commits", r.commits(), "2")
}
