// Package mergediff makes what the reviewer of a change sees: what its merge does to the base, in parts that a model
// can read, and a list of what no text can show.
//
// A branch must not decide how it is shown. So git runs in an empty repository that borrows the objects of the
// mirror and nothing else: it finds no .gitattributes, no .gitmodules, no configuration, no info/attributes and no
// replaced objects there, whatever its version. Git 2.39 has no other way: GIT_ATTR_SOURCE came with 2.41.
package mergediff

import (
	"context"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Change is a branch that asks to be merged.
type Change struct {
	Objects    string // the folder with the objects of the repository
	Base, Head string // commits
	// Rebases reports that the forge rebases the commits instead of merging the head.
	Rebases bool
}

// Limits bound what is shown. All are in bytes.
type Limits struct {
	Part   int   // one part of the text
	Whole  int   // all parts together
	Unseen int64 // a binary, a file in Git LFS or a lock file up to this size counts as shown when it is listed
}

// View is what the reviewer of a change sees.
type View struct {
	Parts  []string // the text, in order; at least one. The first begins with the list
	Listed []Entry  // what the text does not show whole
	// Conflict reports that the change does not merge, so that the text shows base...head only.
	Conflict bool
	// Patch is base...head, by whose lines the forge places comments. It is cut if it is very long.
	Patch string
}

// Unshown returns the entries that keep an approval from being one of the whole change, in the order of Listed.
func (v *View) Unshown() (all []Entry) {
	for _, e := range v.Listed {
		if !e.Shown {
			all = append(all, e)
		}
	}
	return all
}

// Submodules returns the paths of the submodules that the change moves, in the order of Listed.
func (v *View) Submodules() (paths []string) {
	for _, e := range v.Listed {
		if e.Kind == submodule {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// Read reads a change. run runs git, with environ as the environment to start from. The error is that of git, or says
// that the two commits have no common one.
func Read(
	ctx context.Context, run func(context.Context, agents.Cmd) error, environ []string, c Change, most Limits,
) (*View, error) {
	g, err := open(ctx, run, environ, c.Objects, most.Whole)
	if err != nil {
		return nil, err
	}
	defer g.close()
	bases, err := g.mergeBases(ctx, c.Base, c.Head)
	if err != nil {
		return nil, err
	}
	own, err := g.diff(ctx, bases[0], c.Head)
	if err != nil {
		return nil, err
	}
	p := &page{most: most, own: own, merged: own, view: &View{}}
	if len(bases) > 1 {
		p.list(Entry{
			Path: "the history", Kind: fmt.Sprintf("%d merge bases", len(bases)), Size: -1, Hash: strings.Join(bases, " "),
		})
	}
	m, err := g.result(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case m.conflict:
		p.view.Conflict = true
	case m.tree == "":
		p.list(Entry{Path: "the merge", Kind: "not known: git 2.38 or newer can show it", Size: -1, Hash: c.Base})
	case !m.head: // else it is base...head
		if p.merged, err = g.diff(ctx, c.Base, m.tree); err != nil {
			return nil, err
		}
	}
	if m.untried {
		p.list(Entry{Path: "the rebase", Kind: fmt.Sprintf("of more than %d commits", maxCommits), Size: -1, Hash: c.Head})
	}
	p.rebased = m.rebased
	return p.compose(), nil
}
