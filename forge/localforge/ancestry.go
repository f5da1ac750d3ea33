package localforge

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// ancestors returns a commit and all its ancestors.
func (s *store) ancestors(sha string) (map[string]commit, error) {
	all := map[string]commit{}
	for next := []string{sha}; len(next) > 0; {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		if _, known := all[last]; known {
			continue
		}
		co, err := s.commit(last)
		if err != nil {
			return nil, err
		}
		all[last] = co
		next = append(next, strings.Fields(co.parents)...)
	}
	return all, nil
}

// span returns the commits of after that before lacks, in git's order: newest first, and every commit after one of its
// children. before is "" for all commits.
func (s *store) span(before, after string) ([]commit, error) {
	skip := map[string]commit{}
	if before != "" {
		var err error
		if skip, err = s.ancestors(before); err != nil {
			return nil, err
		}
	}
	var list, queue []commit
	add := func(sha string) error {
		if _, known := skip[sha]; known {
			return nil
		}
		co, err := s.commit(sha)
		if err != nil {
			return err
		}
		skip[sha] = co
		at := slices.IndexFunc(queue, func(other commit) bool { return other.committed.Before(co.committed) })
		if at < 0 {
			at = len(queue)
		}
		queue = slices.Insert(queue, at, co)
		return nil
	}
	for err := add(after); ; {
		if err != nil {
			return nil, err
		}
		if len(queue) == 0 {
			return list, nil
		}
		co := queue[0]
		list, queue = append(list, co), queue[1:]
		for parent := range strings.FieldsSeq(co.parents) {
			if err = add(parent); err != nil {
				break
			}
		}
	}
}

// mergeBase returns the merge base of two commits, if there is exactly one.
func (s *store) mergeBase(base, head string) (string, error) {
	of, err := s.ancestors(base)
	if err != nil {
		return "", err
	}
	if _, behind := of[head]; behind {
		return head, nil
	}
	var best []string
	seen := map[string]bool{}
	for next := []string{head}; len(next) > 0; {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[last] {
			continue
		}
		seen[last] = true
		if _, common := of[last]; common {
			best = append(best, last)
			continue
		}
		co, err := s.commit(last)
		if err != nil {
			return "", err
		}
		next = append(next, strings.Fields(co.parents)...)
	}
	if len(best) != 1 {
		return "", errAskGit
	}
	return best[0], nil
}

// tryMerge is Forge.tryMerge for merges that need no comparison of lines: the two sides change different files, and
// neither deletes one, and so neither renames one.
func (s *store) tryMerge(base, head string) (check, string, diffStat, error) {
	fail := func(err error) (check, string, diffStat, error) { return broken, "", diffStat{}, err }
	mergeBase, err := s.mergeBase(base, head)
	if err != nil {
		return fail(err)
	}
	if mergeBase == head {
		return ancestor, mergeBase, diffStat{}, nil
	}
	theirs, err := s.diff(mergeBase, head)
	if err != nil {
		return fail(err)
	}
	if len(theirs) == 0 {
		return nothing, mergeBase, diffStat{}, nil
	}
	stat, err := s.stat(theirs)
	if err != nil {
		return fail(err)
	}
	ours, err := s.diff(mergeBase, base)
	if err != nil {
		return fail(err)
	}
	if len(ours) > 0 && (deletes(ours) || collide(ours, theirs)) {
		return fail(errAskGit)
	}
	return mergeable, mergeBase, stat, nil
}

func deletes(files map[string]changed) bool {
	for _, file := range files {
		if file.after == (entry{}) {
			return true
		}
	}
	return false
}

// collide reports whether a file of one side is also a file or a folder of the other side.
func collide(ours, theirs map[string]changed) bool {
	paths := slices.Concat(slices.Collect(maps.Keys(ours)), slices.Collect(maps.Keys(theirs)))
	for i := range paths {
		paths[i] += "/"
	}
	slices.Sort(paths)
	for i := 1; i < len(paths); i++ {
		if strings.HasPrefix(paths[i], paths[i-1]) {
			return true
		}
	}
	return false
}

// stat counts the changed lines, if that needs no comparison of lines: a changed file has a common beginning and a
// common end, and no line in common between.
func (s *store) stat(files map[string]changed) (diffStat, error) {
	stat := diffStat{files: len(files)}
	for _, file := range files {
		if file.after == (entry{}) || file.after.mode != "100644" || file.before.mode != "" && file.before.mode != "100644" {
			return stat, errAskGit // deleted, perhaps renamed; or no plain file
		}
		before, err := s.lines(file.before)
		if err != nil {
			return stat, err
		}
		after, err := s.lines(file.after)
		if err != nil {
			return stat, err
		}
		for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
			before, after = before[1:], after[1:]
		}
		for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
			before, after = before[:len(before)-1], after[:len(after)-1]
		}
		if slices.ContainsFunc(before, func(line string) bool { return slices.Contains(after, line) }) {
			return stat, errAskGit
		}
		stat.additions, stat.deletions = stat.additions+len(after), stat.deletions+len(before)
	}
	return stat, nil
}

// lines returns the lines of a file of less than 300 lines.
func (s *store) lines(file entry) ([]string, error) {
	if file == (entry{}) {
		return nil, nil
	}
	kind, body, err := s.read(file.sha)
	if err != nil || kind != "blob" || bytes.IndexByte(body, 0) >= 0 || bytes.Count(body, []byte("\n")) >= 300 {
		return nil, errAskGit
	}
	return slices.Collect(strings.Lines(string(body))), nil
}
