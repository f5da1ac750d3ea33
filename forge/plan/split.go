package plan

import (
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// MostChildren bounds the issues into which one issue is split. A factory without such a limit once filed 23 issues
// in two minutes.
const MostChildren = 8

// mostNeeds bounds what a task of a split depends on: each costs requests to the forge, and 16 kB can name thousands.
const mostNeeds = 20

// ParseSplit reads the plan by which an issue is split, in Markdown. Beyond Parse's mistakes it refuses what a person
// who approves the plan would not expect of it: more than MostChildren tasks, labels other than skills and a priority,
// another repository, and a task that waits for the issue itself, which waits for its tasks.
func ParseSplit(text string, of forge.Ref) (Plan, error) {
	p := parseMarkdown(text)
	if p.Title == "" {
		p.Title = of.Short() // the issue has a title already
	}
	return p, p.checked("split.md", func(c *checker) {
		if n := len(p.Tasks); n > MostChildren {
			c.wrong(p.Tasks[MostChildren].line, "the plan has %d tasks, more than %d", n, MostChildren)
		}
		for i := range p.Tasks {
			t := &p.Tasks[i]
			if len(t.Labels) > 0 {
				c.wrong(t.line, "the label %s is neither a skill nor a priority", t.Labels[0])
			}
			if t.Repo != "" && !strings.EqualFold(t.Repo, of.Repo) {
				c.wrong(t.line, "the task is for another repository, %s", t.Repo)
			}
			if n := len(t.After); n > mostNeeds {
				c.wrong(t.line, "the task depends on %d issues, more than %d", n, mostNeeds)
			}
			if _, issues := p.Needs(i, of.Repo); slices.Contains(issues, of) {
				c.wrong(t.line, "the task depends on %s, which waits for it", of.Short())
			}
		}
	})
}

// LongestChain returns how many tasks the longest chain of dependencies has: no number of agents is done sooner than
// it takes to do these one after the other.
func (p *Plan) LongestChain() (longest int) {
	depth := make([]int, len(p.Tasks))
	for _, i := range p.Order() {
		depth[i] = 1
		tasks, _ := p.Needs(i, "")
		for _, t := range tasks {
			depth[i] = max(depth[i], depth[t]+1)
		}
		longest = max(longest, depth[i])
	}
	return longest
}

// Lines joins the first mistakes of an error of this package to one line.
func Lines(err error) string {
	const most = 3
	all := strings.Split(err.Error(), "\n")
	text := strings.Join(all[:min(len(all), most)], "; ")
	if n := len(all) - most; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}
