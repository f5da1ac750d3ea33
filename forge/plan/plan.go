// Package plan reads the plan of a convoy: a file in which a person or a planner lists issues to be filed, and the
// dependencies of each. The package is pure: it turns text into a checked Plan or a list of all mistakes. It files
// nothing.
//
// The file has one of two equivalent forms. In TOML:
//
//	title = "Take orders by mail"
//
//	[[task]]
//	id = "parse"
//	title = "Read an order from a mail"
//	skills = ["go"]
//
//	[[task]]
//	title = "Answer with a price"
//	depends_on = ["parse", "#12"]
//
// In Markdown, fields stand right below a task's heading, and everything after the fields is the issue's text:
//
//	# Take orders by mail
//
//	## Read an order from a mail {#parse}
//	Skills: go
//
//	## Answer with a price
//	Depends on: parse, #12
//
//	The price is in the catalogue.
//
// A dependency is another task's id, another task's position in the file (from 1), or an existing issue such as #12 or
// owner/name#12.
package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Plan is a convoy that is yet to be made. The tasks of a plan that Parse or Check accepted can be filed in Order.
type Plan struct {
	Title string `json:"title"`
	Body  string `json:"body,omitempty"`
	// Repo is the owner/name for the convoy, and for tasks without their own; empty means the factory's only
	// repository.
	Repo  string `json:"repo,omitempty"`
	Tasks []Task `json:"tasks"`
}

// Task is an issue that is yet to be filed.
type Task struct {
	ID       string   `json:"id,omitempty"` // empty: the task's position, from 1, is its id
	Title    string   `json:"title"`
	Body     string   `json:"body,omitempty"`
	Repo     string   `json:"repo,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	Skills   []string `json:"skills,omitempty"`     // X for each label skill/X
	Priority int      `json:"priority,omitempty"`   // N for the label priority/N; 0 for none
	After    []string `json:"depends_on,omitempty"` // ids of tasks and references to issues

	line int // line in the file; 0 when unknown
}

// MostTasks bounds the tasks of a plan. Each task costs several requests to the forge.
const MostTasks = 200

// MaxTitle is the longest title that a forge accepts, in bytes.
const MaxTitle = 255

// maxID is the longest id of a task, in bytes.
const maxID = 64

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Parse reads a plan. The suffix of name decides the form: .toml, .md or .markdown. The error lists all mistakes, one
// per line, each with its line in the file where that is known.
func Parse(name, text string) (Plan, error) {
	var p Plan
	var err error
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".toml"):
		p, err = parseTOML(name, text)
	case strings.HasSuffix(lower, ".md"), strings.HasSuffix(lower, ".markdown"):
		p = parseMarkdown(text)
	default:
		return Plan{}, fmt.Errorf("cannot read %s as a plan: its name must end in .toml or .md", name)
	}
	if err == nil {
		err = p.check(name)
	}
	if err != nil {
		return Plan{}, err
	}
	return p, nil
}

// Check returns all mistakes of a plan in one error, including a dependency cycle of any length among its tasks.
func (p *Plan) Check() error { return p.check("the plan") }

func (p *Plan) check(name string) error { return p.checked(name, func(*checker) {}) }

// checked is check with further rules.
func (p *Plan) checked(name string, further func(*checker)) error {
	c := checker{plan: p, name: name, ids: p.ids()}
	c.title(0, "the plan", p.Title)
	c.repo(0, p.Repo)
	switch n := len(p.Tasks); {
	case n == 0:
		c.wrong(0, "the plan has no tasks")
	case n > MostTasks:
		c.wrong(0, "the plan has %d tasks, more than %d: make several convoys", n, MostTasks)
	}
	for i := range p.Tasks {
		c.task(i)
	}
	further(&c)
	if len(c.problems) == 0 {
		c.circle()
	}
	return errors.Join(c.problems...)
}

// Order returns the positions of the tasks, from 0, in an order in which each task comes after those it depends on, and
// otherwise in the order of the file. Tasks that are on a dependency cycle, or depend on one, are left out.
func (p *Plan) Order() []int {
	ids := p.ids()
	var order []int
	done := make([]bool, len(p.Tasks))
	for progress := true; progress; {
		progress = false
		for i := range p.Tasks {
			if done[i] || !p.free(i, ids, done) {
				continue
			}
			done[i], progress = true, true
			order = append(order, i)
		}
	}
	return order
}

// free reports whether all tasks that task i depends on are done.
func (p *Plan) free(i int, ids map[string]int, done []bool) bool {
	return !slices.ContainsFunc(p.Tasks[i].After, func(s string) bool {
		at, isTask := ids[s]
		return isTask && !done[at]
	})
}

// Needs returns what task i depends on: other tasks, as positions from 0, and issues. An issue reference without a
// repository refers to home.
func (p *Plan) Needs(i int, home string) (tasks []int, issues []forge.Ref) {
	ids := p.ids()
	for _, s := range p.Tasks[i].After {
		if at, isTask := ids[s]; isTask {
			tasks = append(tasks, at)
		} else if ref, err := forge.ParseRef(s, home); err == nil {
			issues = append(issues, ref)
		}
	}
	return tasks, issues
}

// AllLabels returns the labels of a task's issue except backlog: sorted, without duplicates.
func (t *Task) AllLabels() []string {
	labels := slices.Clone(t.Labels)
	for _, s := range t.Skills {
		labels = append(labels, forge.SkillPrefix+s)
	}
	if t.Priority > 0 {
		labels = append(labels, "priority/"+strconv.Itoa(t.Priority))
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// ids maps the ids of the tasks to their positions. An explicit id wins over the position of another task.
func (p *Plan) ids() map[string]int {
	ids := make(map[string]int, len(p.Tasks))
	for i := range p.Tasks {
		ids[strconv.Itoa(i+1)] = i
	}
	for i := range p.Tasks {
		if id := p.Tasks[i].ID; id != "" {
			ids[id] = i
		}
	}
	return ids
}

// Called returns a task's id, or its position from 1.
func (p *Plan) Called(i int) string {
	if id := p.Tasks[i].ID; id != "" {
		return id
	}
	return strconv.Itoa(i + 1)
}
