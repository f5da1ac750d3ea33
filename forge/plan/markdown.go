package plan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	headingPattern = regexp.MustCompile(`^(#{1,2})[ \t]+(.*)$`)
	idSuffix       = regexp.MustCompile(`[ \t]*\{#([^{}]*)\}[ \t]*$`)
	fieldPattern   = regexp.MustCompile(`(?i)^[ \t]*(?:[-*][ \t]+)?(depends on|labels|skills|priority|repo):[ \t]*(.*)$`)
	fencePattern   = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
)

// markdownReader reads the lines of a plan in order.
type markdownReader struct {
	plan   Plan
	body   []string // text of the current task, or of the plan before its first task
	fields bool     // true right below a heading, where fields can stand
	fence  string   // marker of the fenced code around the current line; headings do not count in code
}

// parseMarkdown reads the Markdown form: the # heading is the plan, each ## heading a task. It accepts any text; check
// reports what is missing.
func parseMarkdown(text string) Plan {
	var r markdownReader
	n := 0
	for line := range strings.Lines(text) {
		n++
		r.line(n, strings.TrimRight(line, "\r\n"))
	}
	r.endBody()
	return r.plan
}

func (r *markdownReader) line(n int, line string) {
	if m := fencePattern.FindStringSubmatch(line); m != nil {
		switch {
		case r.fence == "":
			r.fence = m[1]
		case strings.HasPrefix(m[1], r.fence):
			r.fence = ""
		}
		r.fields = false
		r.body = append(r.body, line)
		return
	}
	heading := headingPattern.FindStringSubmatch(line)
	switch {
	case r.fence != "", heading == nil:
	case heading[1] == "##":
		r.endBody()
		r.plan.Tasks = append(r.plan.Tasks, taskOf(n, heading[2]))
		r.fields = true
		return
	case r.plan.Title == "" && len(r.plan.Tasks) == 0:
		r.plan.Title, r.fields = strings.TrimSpace(heading[2]), true
		return
	}
	if r.fields && r.field(line) {
		return
	}
	r.fields = r.fields && strings.TrimSpace(line) == ""
	r.body = append(r.body, line)
}

func taskOf(line int, heading string) Task {
	t := Task{line: line}
	if m := idSuffix.FindStringSubmatch(heading); m != nil {
		t.ID = m[1]
		heading = strings.TrimSuffix(heading, m[0])
	}
	t.Title = strings.TrimSpace(heading)
	return t
}

// field reads a line such as "Depends on: parse, #12" and reports whether it is a field.
func (r *markdownReader) field(line string) bool {
	m := fieldPattern.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	name, value := strings.ToLower(m[1]), strings.TrimSpace(m[2])
	if len(r.plan.Tasks) == 0 {
		if name == "repo" {
			r.plan.Repo = value
		}
		return name == "repo"
	}
	t := &r.plan.Tasks[len(r.plan.Tasks)-1]
	switch name {
	case "depends on":
		t.After = append(t.After, words(value)...)
	case "labels":
		t.Labels = append(t.Labels, words(value)...)
	case "skills":
		t.Skills = append(t.Skills, words(value)...)
	case "repo":
		t.Repo = value
	case "priority":
		n, err := strconv.Atoi(value)
		if err != nil {
			n = -1 // out of range, so that check reports it
		}
		t.Priority = n
	}
	return true
}

// words splits a list at commas.
func words(list string) []string {
	all := strings.Split(list, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// endBody stores the lines read so far as the text of the last task, or of the plan before its first task.
func (r *markdownReader) endBody() {
	text := strings.Trim(strings.Join(r.body, "\n"), "\n")
	r.body, r.fence = nil, ""
	if n := len(r.plan.Tasks); n > 0 {
		r.plan.Tasks[n-1].Body = text
	} else {
		r.plan.Body = text
	}
}
