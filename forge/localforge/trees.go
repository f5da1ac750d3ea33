package localforge

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// entry is an entry of a tree: a file, a folder, or a link.
type entry struct{ mode, sha string }

const folderMode = "40000"

// folder reads a tree: its entries by name.
func (s *store) folder(sha string) (map[string]entry, error) {
	kind, body, err := s.read(sha)
	if err != nil || kind != "tree" {
		return nil, errAskGit
	}
	entries := map[string]entry{}
	for len(body) > 0 {
		head, rest, ok := bytes.Cut(body, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		const size = len(noCommit) / 2
		if !ok || !spaced || len(rest) < size {
			return nil, errAskGit
		}
		entries[name] = entry{mode, hex.EncodeToString(rest[:size])}
		body = rest[size:]
	}
	return entries, nil
}

// find returns the entry of a path in a commit; the zero entry if there is none.
func (s *store) find(sha, path string) (entry, error) {
	co, err := s.commit(sha)
	if err != nil {
		return entry{}, err
	}
	at := entry{folderMode, co.tree}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return entry{}, errAskGit
		}
		if at.mode != folderMode {
			return entry{}, nil
		}
		entries, err := s.folder(at.sha)
		if err != nil {
			return entry{}, err
		}
		at = entries[name]
	}
	return at, nil
}

// kind returns what git calls an object of an entry.
func (e entry) kind() string {
	switch e.mode {
	case folderMode:
		return "tree"
	case "160000":
		return "commit"
	}
	return "blob"
}

// with returns the tree that results from changes of files in a tree; "" stands for an empty tree.
func (s *store) with(tree string, files []fileChange) (string, error) {
	entries := map[string]entry{}
	if tree != "" {
		var err error
		if entries, err = s.folder(tree); err != nil {
			return "", err
		}
	}
	inside := map[string][]fileChange{}
	for _, file := range files {
		if folder, rest, deep := strings.Cut(file.path, "/"); deep {
			file.path = rest
			inside[folder] = append(inside[folder], file)
		} else if file.operation == "delete" {
			delete(entries, file.path)
		} else {
			sha, err := s.write("blob", file.body)
			if err != nil {
				return "", err
			}
			entries[file.path] = entry{"100644", sha}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		below := ""
		if old := entries[name]; old.mode == folderMode {
			below = old.sha
		}
		sha, err := s.with(below, inside[name])
		if err != nil {
			return "", err
		}
		if delete(entries, name); sha != "" {
			entries[name] = entry{folderMode, sha}
		}
	}
	if len(entries) == 0 {
		return "", nil
	}
	return s.writeFolder(entries)
}

// writeFolder stores a tree. Git sorts a folder as if its name ended in a slash.
func (s *store) writeFolder(entries map[string]entry) (string, error) {
	key := func(name string) string {
		if entries[name].mode == folderMode {
			return name + "/"
		}
		return name
	}
	names := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return strings.Compare(key(a), key(b)) })
	var body []byte
	for _, name := range names {
		raw, err := hex.DecodeString(entries[name].sha)
		if err != nil {
			return "", err
		}
		body = append(fmt.Appendf(body, "%s %s\x00", entries[name].mode, name), raw...)
	}
	return s.write("tree", body)
}

// changed is a file that differs between two trees; the zero entry means that it does not exist.
type changed struct{ before, after entry }

// diff returns the files that differ between two commits, by path.
func (s *store) diff(before, after string) (map[string]changed, error) {
	a, err := s.commit(before)
	if err != nil {
		return nil, err
	}
	b, err := s.commit(after)
	if err != nil {
		return nil, err
	}
	all := map[string]changed{}
	return all, s.diffInto(all, "", entry{folderMode, a.tree}, entry{folderMode, b.tree})
}

func (s *store) diffInto(all map[string]changed, path string, before, after entry) error {
	if before == after {
		return nil
	}
	var old, now map[string]entry
	var err error
	if before.mode == folderMode {
		if old, err = s.folder(before.sha); err != nil {
			return err
		}
		before = entry{}
	}
	if after.mode == folderMode {
		if now, err = s.folder(after.sha); err != nil {
			return err
		}
		after = entry{}
	}
	if before != after {
		all[path] = changed{before, after}
	}
	if path != "" {
		path += "/"
	}
	for name, e := range old {
		if err := s.diffInto(all, path+name, e, now[name]); err != nil {
			return err
		}
	}
	for name, e := range now {
		if _, both := old[name]; !both {
			if err := s.diffInto(all, path+name, entry{}, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// commitFiles commits changes of files onto the commit from ("" for the first commit), and returns the new commit.
func (s *store) commitFiles(change contentChange, from string, now int64) (string, error) {
	tree := ""
	if from != "" {
		co, err := s.commit(from)
		if err != nil {
			return "", err
		}
		tree = co.tree
	}
	tree, err := s.with(tree, change.files)
	if err == nil && tree == "" {
		tree, err = s.write("tree", nil)
	}
	if err != nil {
		return "", err
	}
	text := "tree " + tree + "\n"
	if from != "" {
		text += "parent " + from + "\n"
	}
	name, mail := change.by.signature()
	by := fmt.Sprintf("%s <%s> %d +0000\n", name, mail, now)
	return s.write("commit", []byte(text+"author "+by+"committer "+by+"\n"+change.message+"\n"))
}
