package simtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// mainBranch is the main branch of a repository. The zero value has no commit of ours.
type mainBranch struct {
	tip   int             // merges into it
	reds  map[string]bool // commits that are red
	redBy forge.Ref       // the merge that made it red, at redAt
	redAt time.Time
}

// Check gives the main branches and each pull request checks.
func (f *Forge) Check(names ...string) { set(&f.mu, &f.checks, names) }

// Break makes the n-th merge from now turn the main branch of its repository red; n counts from 1.
func (f *Forge) Break(n int) { set(&f.mu, &f.breaks, n) }

// Repair pushes a commit to the main branch of a repository that repairs its checks.
func (f *Forge) Repair(repo string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moveLocked(repo, forge.Ref{})
	delete(f.mainLocked(repo).reds, f.tipLocked(repo))
}

// Red returns the repository whose main branch is red and the merge that did it; "" means none.
func (f *Forge) Red() (repo string, by forge.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, repo := range f.Repos {
		if m := f.mainLocked(repo); m.reds[f.tipLocked(repo)] {
			return repo, m.redBy
		}
	}
	return "", forge.Ref{}
}

func (f *Forge) mainLocked(repo string) *mainBranch {
	if f.mains[repo] == nil {
		f.mains[repo] = &mainBranch{reds: make(map[string]bool)}
	}
	return f.mains[repo]
}

// moveLocked gives a main branch a new commit, which is red after a red one. by is the merge, if it is one.
func (f *Forge) moveLocked(repo string, by forge.Ref) {
	m := f.mainLocked(repo)
	red := m.reds[f.tipLocked(repo)]
	m.tip++
	if by.Number != 0 && f.breaks > 0 {
		if f.breaks--; f.breaks == 0 {
			red, m.redBy, m.redAt = true, by, time.Now()
		}
	}
	if red {
		m.reds[f.tipLocked(repo)] = true
	}
}

func (f *Forge) tipLocked(repo string) string {
	return fmt.Sprintf("main%d.%d", slices.Index(f.Repos, repo), f.mainLocked(repo).tip)
}

// checkedLocked fills in the checks of a pull request.
func (f *Forge) checkedLocked(p *forge.Pull) {
	if p.CI = forge.CISuccess; f.mainLocked(p.Ref.Repo).reds[p.MergeBase] && !isRevert(p) {
		p.CI, p.Red, p.RedBefore = forge.CIFailure, f.checks, f.checks
	}
}

// isRevert reports whether a pull request takes back what made main red.
func isRevert(p *forge.Pull) bool { return strings.HasPrefix(p.Title, "Revert ") }

func (f *Forge) branchesLocked(repo string) []forge.Branch {
	m := f.mainLocked(repo)
	main := forge.Branch{Name: "main", SHA: f.tipLocked(repo), CI: forge.CISuccess}
	if m.reds[main.SHA] {
		main.CI, main.Red, main.Since, main.By = forge.CIFailure, f.checks, m.redAt, m.redBy
	}
	return []forge.Branch{main}
}
