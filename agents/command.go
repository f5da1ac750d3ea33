package agents

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// Cmd is a program to run.
type Cmd struct {
	Argv   []string
	Dir    string
	Env    []string // the complete environment
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Alone  bool // all processes that it leaves behind are ended
}

// Argv renders the role's command for one session. The program and each argument are separate templates: text from the
// forge can become part of an argument, but never an additional argument. A role without a command returns nil.
func (r *Role) Argv(d CommandData) ([]string, error) {
	if len(r.Command) == 0 {
		return nil, nil
	}
	argv := make([]string, len(r.Command))
	for i, text := range r.Command {
		arg, err := render(text, d)
		if err != nil {
			return nil, fmt.Errorf("cannot render command of role %s: %w", r.Name, err)
		}
		argv[i] = arg
	}
	if argv[0] == "" {
		return nil, fmt.Errorf("cannot render command of role %s: its program is empty", r.Name)
	}
	return argv, nil
}

// CheckArgument returns the error that Argv would return for this text of a program or argument. It renders the text
// for every kind of item, once with a number and once without.
func CheckArgument(text string) error {
	for _, kind := range []Kind{KindIssue, KindReview, KindRework, KindSchedule} {
		d := CommandData{Repo: "owner/name", Agent: "agent", Role: "role", Thread: "thread", Model: "model", Kind: kind}
		for d.Number = range 2 {
			if _, err := render(text, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func render(text string, d CommandData) (string, error) {
	t, err := template.New("command").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", plain(err)
	}
	var b strings.Builder
	if err := t.Execute(&b, d); err != nil {
		return "", plain(err)
	}
	return b.String(), nil
}

var unknownField = regexp.MustCompile(`can't evaluate field (\w+) in type agents\.CommandData`)

// plain removes the template engine's prefix and position from an error: an argument is one short line.
func plain(err error) error {
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("unknown field .%s, want one of .Repo .Number .Issue .Agent .Role .Thread .Model .Kind", m[1])
	}
	text := strings.TrimPrefix(err.Error(), "template: command:")
	return errors.New(strings.TrimLeft(text, "0123456789: "))
}

// PromptsFlag tells the built-in program the folder with prompts that replace its own.
const PromptsFlag = "--prompts"

// WithPrompts returns a command of the built-in program with a folder of prompts in place of any other.
func WithPrompts(argv []string, folder string) []string {
	argv = slices.Clone(argv)
	if i := slices.Index(argv, PromptsFlag); i == 2 {
		argv[i+1] = folder
		return argv
	}
	return slices.Insert(argv, 2, PromptsFlag, folder) // after disinto agent
}
