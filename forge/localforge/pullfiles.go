package localforge

import (
	"cmp"
	"strings"
)

// pullSpan returns the commits between which a pull request changes files: its merge base and its head.
func (c *call) pullSpan() (i *issue, from, to string, err error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	i, err = c.pathPull()
	if err != nil {
		return nil, "", "", err
	}
	return i, i.pull.mergeBase, i.pull.headSHA, nil
}

// listPullCommits computes the list for each request, unlike the merge base of the pull request.
func listPullCommits(c *call) (any, error) {
	i, from, to, err := c.pullSpan()
	if err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	if !i.pull.merged {
		from = cmp.Or(c.repo.branch(i.pull.base), from)
	}
	c.f.mu.Unlock()
	commits, err := c.f.span(c.r.Context(), c.repo, from, to)
	if err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return paged(c, commits, c.view.fullCommit), nil
}

type wireChangedFile struct {
	Filename string `json:"filename"`
}

func listPullFiles(c *call) (any, error) {
	_, from, to, err := c.pullSpan()
	if err != nil {
		return nil, err
	}
	out, err := c.f.git(c.r.Context(), c.repo.dir, "diff", "--name-only", "-z", from, to)
	if err != nil {
		return nil, err
	}
	return paged(c, changedNames(out), func(name string) wireChangedFile { return wireChangedFile{name} }), nil
}

// changedNames reads the output of git diff --name-only -z.
func changedNames(out string) []string {
	return strings.FieldsFunc(out, func(r rune) bool { return r == 0 })
}
