package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// parseTOML reads the TOML form. An unknown key is a mistake, because it can be a misspelt one.
func parseTOML(name, text string) (Plan, error) {
	var file struct {
		Title, Body, Repo string
		Task              []struct {
			ID, Title, Body, Repo string
			Labels, Skills        []string
			Priority              int
			After                 []string `toml:"depends_on"`
		}
	}
	meta, err := toml.Decode(text, &file)
	if err != nil {
		var bad toml.ParseError
		if errors.As(err, &bad) {
			return Plan{}, fmt.Errorf("%s:%d: %s", name, bad.Position.Line, oneLine(bad.Message))
		}
		return Plan{}, fmt.Errorf("%s: %s", name, oneLine(strings.TrimPrefix(err.Error(), "toml: ")))
	}
	var problems []error
	for _, key := range meta.Undecoded() {
		problems = append(problems, fmt.Errorf("%s: unknown key %s", name, key))
	}
	lines := taskLines(text)
	p := Plan{Title: file.Title, Body: file.Body, Repo: file.Repo}
	for i, t := range file.Task {
		task := Task{
			ID: t.ID, Title: t.Title, Body: t.Body, Repo: t.Repo, Labels: t.Labels, Skills: t.Skills,
			Priority: t.Priority, After: t.After,
		}
		if len(lines) == len(file.Task) {
			task.line = lines[i]
		}
		p.Tasks = append(p.Tasks, task)
	}
	return p, errors.Join(problems...)
}

// taskLines returns the line numbers of the [[task]] headers. It also counts a line of that form inside a multi-line
// string; the caller ignores the line numbers if there are not as many of them as tasks.
func taskLines(text string) []int {
	var lines []int
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if strings.ReplaceAll(strings.TrimSpace(line), " ", "") == "[[task]]" {
			lines = append(lines, n)
		}
	}
	return lines
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
