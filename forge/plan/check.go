package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"codeberg.org/johba/disinto/forge"
)

// checker collects the mistakes in a plan.
type checker struct {
	plan     *Plan
	name     string // name of the plan's file
	ids      map[string]int
	problems []error
}

// wrong adds a mistake at a line of the file. Line 0 stands for the plan as a whole.
func (c *checker) wrong(line int, format string, args ...any) {
	at := c.name
	if line > 0 {
		at = fmt.Sprintf("%s:%d", c.name, line)
	}
	c.problems = append(c.problems, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

func (c *checker) title(line int, what, title string) {
	switch {
	case strings.TrimSpace(title) == "":
		c.wrong(line, "%s has no title", what)
	case len(title) > MaxTitle:
		c.wrong(line, "the title has %d bytes, more than %d", len(title), MaxTitle)
	case strings.ContainsFunc(title, unicode.IsControl):
		c.wrong(line, "the title contains a control character")
	}
}

func (c *checker) repo(line int, repo string) {
	if repo != "" && !forge.ValidRepo(repo) {
		c.wrong(line, "%q is not a repository: write owner/name", repo)
	}
}

func (c *checker) task(i int) {
	t := &c.plan.Tasks[i]
	c.title(t.line, "task "+c.plan.Called(i), t.Title)
	c.repo(t.line, t.Repo)
	switch {
	case t.ID == "":
	case len(t.ID) > maxID, !idPattern.MatchString(t.ID):
		c.wrong(t.line, "%q is not an id: want letters and digits, with - _ . between them", t.ID)
	case c.ids[t.ID] != i:
		c.wrong(t.line, "another task also has the id %s", t.ID)
	}
	if t.Priority < 0 || t.Priority > 10 {
		c.wrong(t.line, "priority is %d, want 1 (first) to 10 (last)", t.Priority)
	}
	for _, l := range t.AllLabels() {
		c.label(t.line, l)
	}
	for _, s := range t.After {
		c.need(i, s)
	}
}

// label reports labels that keep an issue from being worked on. It also reports in-progress, because only a claim can
// set it.
func (c *checker) label(line int, label string) {
	switch {
	case label == forge.LabelInProgress || forge.SkipLabel([]string{label}) != "":
		c.wrong(line, "the label %s keeps an issue from being worked on", label)
	case label == "" || strings.TrimSpace(label) != label || strings.ContainsFunc(label, unicode.IsControl):
		c.wrong(line, "%q is not a label", label)
	case label == forge.SkillPrefix:
		c.wrong(line, "a skill has no name")
	}
}

// need checks one dependency of a task.
func (c *checker) need(i int, s string) {
	t := &c.plan.Tasks[i]
	at, isTask := c.ids[s]
	switch {
	case isTask && at == i:
		c.wrong(t.line, "task %s depends on itself", c.plan.Called(i))
	case isTask:
	case !strings.Contains(s, "#"):
		c.wrong(t.line, "task %s depends on %q, which is not a task: write #N for an issue", c.plan.Called(i), s)
	default:
		if _, err := forge.ParseRef(s, "home/repo"); err != nil {
			c.wrong(t.line, "task %s: %v", c.plan.Called(i), err)
		}
	}
}

// circle reports a dependency cycle of any length among the tasks.
func (c *checker) circle() {
	order := c.plan.Order()
	if len(order) == len(c.plan.Tasks) {
		return
	}
	// Every task that Order left out depends on another such task, so following these dependencies ends in a cycle.
	var path []int
	at := 0
	for slices.Contains(order, at) {
		at++
	}
	for !slices.Contains(path, at) {
		path = append(path, at)
		tasks, _ := c.plan.Needs(at, "")
		at = tasks[slices.IndexFunc(tasks, func(t int) bool { return !slices.Contains(order, t) })]
	}
	var words []string
	for _, i := range append(path[slices.Index(path, at):], at) {
		words = append(words, c.plan.Called(i))
	}
	c.wrong(c.plan.Tasks[at].line, "the tasks wait for each other: %s", strings.Join(words, " -> "))
}
