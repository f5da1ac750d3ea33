package localforge

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// store reads and writes the objects of a repository in git's own files, without a process. A git process takes 3 ms,
// and some requests need four. Git stores a new object in a file of its own, and puts objects together only when a push
// brings a hundred. If an object has no file of its own, or an unusual shape, the store's methods fail, and the caller
// asks git.
type store struct {
	dir string

	mu      sync.Mutex        // guards commits
	commits map[string]commit // read so far; a commit never changes
}

// errAskGit means that only git can answer.
var errAskGit = errors.New("not an object in a file of its own")

func newStore(dir string) *store { return &store{dir: dir, commits: map[string]commit{}} }

// isHash reports whether a name is the full name of an object.
func isHash(name string) bool {
	return len(name) == len(noCommit) && strings.Trim(name, "0123456789abcdef") == ""
}

func (s *store) file(sha string) string { return filepath.Join(s.dir, "objects", sha[:2], sha[2:]) }

// read returns an object's kind and content.
func (s *store) read(sha string) (kind string, body []byte, err error) {
	if !isHash(sha) {
		return "", nil, errAskGit
	}
	packed, err := os.ReadFile(s.file(sha))
	if err != nil {
		return "", nil, errAskGit
	}
	plain, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", nil, errAskGit
	}
	whole, err := io.ReadAll(plain)
	head, body, ok := bytes.Cut(whole, []byte{0})
	kind, size, _ := strings.Cut(string(head), " ")
	if n, bad := strconv.Atoi(size); err != nil || !ok || bad != nil || n != len(body) {
		return "", nil, errAskGit
	}
	return kind, body, nil
}

// write stores an object and returns its name.
func (s *store) write(kind string, body []byte) (string, error) {
	whole := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	sum := sha1.Sum(whole)
	sha := hex.EncodeToString(sum[:])
	file := s.file(sha)
	if _, err := os.Lstat(file); err == nil {
		return sha, nil
	}
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	part, err := os.CreateTemp(filepath.Dir(file), "tmp_obj_") // git's own name, which its gc removes
	if err != nil {
		return "", err
	}
	z := zips.Get().(*zlib.Writer)
	z.Reset(part)
	_, err = z.Write(whole)
	err = errors.Join(err, z.Close(), part.Chmod(0o444), part.Close())
	zips.Put(z)
	if err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		_ = os.Remove(part.Name())
	}
	return sha, err
}

// zips has compressors that were used before: a new one allocates most of a megabyte.
var zips = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

// commit reads a commit.
func (s *store) commit(sha string) (commit, error) {
	s.mu.Lock()
	co, known := s.commits[sha]
	s.mu.Unlock()
	if known {
		return co, nil
	}
	kind, body, err := s.read(sha)
	if err != nil {
		return co, err
	}
	if kind != "commit" {
		return co, errAskGit
	}
	if co, err = parseCommit(sha, string(body)); err != nil {
		return co, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits[sha] = co
	return co, nil
}

// parseCommit parses a commit of plain shape. Git converts commits in another encoding.
func parseCommit(sha, text string) (commit, error) {
	head, message, _ := strings.Cut(text, "\n\n")
	co := commit{sha: sha, message: message}
	signed := 0
	var parents []string
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		var ok bool
		switch key {
		case "tree":
			co.tree, ok = value, isHash(value)
		case "parent":
			parents, ok = append(parents, value), isHash(value)
		case "author":
			co.author, co.authorMail, co.authored, ok = parseSignature(value)
			signed++
		case "committer":
			co.committer, co.commitBox, co.committed, ok = parseSignature(value)
			signed++
		}
		if !ok {
			return co, errAskGit
		}
	}
	if signed != 2 || co.tree == "" || strings.HasPrefix(message, "\n") {
		return co, errAskGit
	}
	co.parents = strings.Join(parents, " ")
	return co, nil
}

// parseSignature parses "NAME <MAIL> SECONDS +HHMM".
func parseSignature(text string) (name, mail string, at time.Time, ok bool) {
	name, rest, ok1 := strings.Cut(text, " <")
	mail, when, ok2 := strings.Cut(rest, "> ")
	field := strings.Fields(when)
	if !ok1 || !ok2 || len(field) != 2 || len(field[1]) != 5 || strings.ContainsAny(name+mail, "<>") ||
		strings.TrimSpace(name) != name || strings.TrimSpace(mail) != mail {
		return "", "", at, false
	}
	seconds, err1 := strconv.ParseInt(field[0], 10, 64)
	zone, err2 := time.Parse("-0700", field[1])
	if err1 != nil || err2 != nil || seconds < 0 {
		return "", "", at, false
	}
	return name, mail, time.Unix(seconds, 0).In(zone.Location()), true
}
