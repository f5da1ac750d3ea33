package localforge

import (
	"net/http"
	"slices"
)

var dependencyRoutes = []route{
	{"GET /repos/{owner}/{repo}/issues/{number}/dependencies", scopeIssue, anyone, 200, listDependencies, underLock},
	{"POST /repos/{owner}/{repo}/issues/{number}/dependencies", scopeIssue, signedIn, 201, addDependency, underLock},
	// A pattern that ends in "dependencies" would conflict with issues/comments/{id}, so the handler checks the last
	// element.
	{"DELETE /repos/{owner}/{repo}/issues/{number}/{list}", scopeIssue, signedIn, 201, removeDependency, underLock},
}

// blocked reports whether an issue has an open dependency.
func (i *issue) blocked() bool {
	return slices.ContainsFunc(i.dependsOn, func(d *issue) bool { return !d.closed })
}

// forgetDependencies removes the dependencies of and on a deleted issue.
func (i *issue) forgetDependencies() {
	for _, d := range i.dependsOn {
		d.blocks = remove(d.blocks, i)
	}
	for _, b := range i.blocks {
		b.dependsOn = remove(b.dependsOn, i)
	}
	i.dependsOn, i.blocks = nil, nil
}

// listDependencies shows a blocker that the caller cannot read as an issue named HIDDEN without a number. To a caller
// with write access Forgejo intends to show more, but shows an empty issue.
func listDependencies(c *call) (any, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, err
	}
	list := paged(c, i.dependsOn, func(d *issue) *wireIssue {
		if d.repo.accessOf(c.doer) > accessNone {
			return c.view.issue(d)
		}
		if c.access >= accessWrite {
			return &wireIssue{}
		}
		return &wireIssue{Title: "HIDDEN", State: "open"}
	})
	return list.items, nil
}

// dependencyPair reads the two issues of a request: one from the path and one from the body.
func (c *call) dependencyPair() (path, form *issue, err error) {
	if path, err = c.pathIssue(); err != nil {
		return nil, nil, err
	}
	var meta struct {
		Index int64  `json:"index"`
		Owner string `json:"owner"`
		Repo  string `json:"repo"`
	}
	if err := c.bind(&meta); err != nil {
		return nil, nil, err
	}
	r := c.f.repoLocked(meta.Owner, meta.Repo)
	if r == nil {
		return nil, nil, notFound()
	}
	if form = r.issue(meta.Index); form == nil {
		return nil, nil, notFound()
	}
	return path, form, nil
}

// mayChangeBlockers answers 404 to a caller who cannot write to the blocked issue or cannot read the blocker.
func (c *call) mayChangeBlockers(blocked, blocker *issue) error {
	if blocked.repo.accessOf(c.doer) < accessWrite || blocker.repo.accessOf(c.doer) < accessRead {
		return notFound()
	}
	return nil
}

func addDependency(c *call) (any, error) {
	blocked, blocker, err := c.dependencyPair()
	if err != nil {
		return nil, err
	}
	if err := c.addBlocker(blocked, blocker); err != nil {
		return nil, err
	}
	return c.view.issue(blocked), nil
}

// addBlocker adds a dependency. It answers 500 if the dependency or its direct opposite already exists. It accepts
// longer cycles, as Forgejo does; clients must find them.
func (c *call) addBlocker(blocked, blocker *issue) error {
	if err := c.mayChangeBlockers(blocked, blocker); err != nil {
		return err
	}
	if slices.Contains(blocked.dependsOn, blocker) {
		return fail(http.StatusInternalServerError, "issue dependency does already exist [issue id: %d, dependency id: %d]",
			blocked.id, blocker.id)
	}
	if slices.Contains(blocker.dependsOn, blocked) {
		return fail(http.StatusInternalServerError,
			"circular dependencies exists (two issues blocking each other) [issue id: %d, dependency id: %d]",
			blocked.id, blocker.id)
	}
	blocked.dependsOn = append(slices.Clone(blocked.dependsOn), blocker)
	blocker.blocks = append(slices.Clone(blocker.blocks), blocked)
	c.recordBlocker(blocked, blocker, "add_dependency")
	return nil
}

func removeDependency(c *call) (any, error) {
	if c.r.PathValue("list") != "dependencies" {
		return nil, notFound()
	}
	blocked, blocker, err := c.dependencyPair()
	if err != nil {
		return nil, err
	}
	if err := c.removeBlocker(blocked, blocker); err != nil {
		return nil, err
	}
	return c.view.issue(blocked), nil
}

func (c *call) removeBlocker(blocked, blocker *issue) error {
	if err := c.mayChangeBlockers(blocked, blocker); err != nil {
		return err
	}
	if !slices.Contains(blocked.dependsOn, blocker) {
		return fail(http.StatusInternalServerError, "issue dependency does not exist [issue id: %d, dependency id: %d]",
			blocked.id, blocker.id)
	}
	blocked.dependsOn = remove(blocked.dependsOn, blocker)
	blocker.blocks = remove(blocker.blocks, blocked)
	c.recordBlocker(blocked, blocker, "remove_dependency")
	return nil
}

// recordBlocker adds an entry to both timelines, so that updated_at of both issues changes. Forgejo has no web hook for
// dependencies.
func (c *call) recordBlocker(blocked, blocker *issue, kind string) {
	c.record(blocked, &comment{kind: kind, other: blocker})
	c.record(blocker, &comment{kind: kind, other: blocked})
}
