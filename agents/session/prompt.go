package session

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"text/template"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// prompts are the embedded templates: one per kind of work, and one for each role with its own.
//
//go:embed prompts/*.md
var prompts embed.FS

// begin is the common beginning of the prompts for an issue and for its rework, including the issue: a server that has
// read one of them has read most of the other. So everything that changes between sessions follows it, and it contains
// no time, path or id. Any template can include it as {{template "begin.md" .}}.
//
//go:embed prompts/begin.md
var begin string

// stoppedPrompt tells the agent where an earlier session stopped, and is empty if there is nothing to tell. Any
// template can include it as {{template "stopped.md" .}}. It is appended to others.
//
//go:embed prompts/stopped.md
var stoppedPrompt string

const (
	beginning = "begin.md"
	stopping  = "stopped.md"
)

// quoted is text from the forge or from a program. A prompt shows it between fences that the text cannot close, which
// mark it as data.
type quoted string

// String returns the text between fences longer than any fence in it, and "(empty)" for an empty text.
func (q quoted) String() string {
	text := strings.TrimSpace(string(q))
	if text == "" {
		return "(empty)"
	}
	fence := "~~~~"
	for strings.Contains(text, fence) {
		fence += "~"
	}
	return fence + "text\n" + text + "\n" + fence
}

// promptData holds the variables of the templates. An unknown variable is an error, not an empty string.
type promptData struct {
	Agent, Role, Repo string
	Number            int64  // of the issue or pull request; 0 for scheduled work
	Base              string // the branch on which work begins and into which it is merged
	Branch            string // the branch to commit on; empty for a review
	Title, Body       quoted // of the issue or pull request
	Author            string // login of its author
	Comments          []remark
	Dialogue          []remark     // the last question or plan, and people's answers; not in Comments
	Kind              string       // kind of work: issue, plan, split, rework, review, schedule
	Issues            []issueText  // the issue, or those that the pull request closes
	Reviews           []reviewText // of the pull request, without dismissed ones, oldest first
	Checks            []check      // failed checks of the pull request's head
	Conflict          bool         // the pull request does not merge cleanly
	Fork              string       // the commit at which the branch left a base that was rewritten since; "" without one
	Diff              quoted       // what the merge of the pull request does; the first of its Parts
	Parts             int          // of the difference; the others follow in the conversation
	Closing           quoted       // messages of commits that would close issues of others at the merge; of a review
	Lessons           quoted       // from the agent's profile
	Tried             []triedText  // outcomes of earlier agents on the escalation list
	Continues         bool         // an earlier session was interrupted, and its work is in the worktree
	Stopped           quoted       // what ended that session
	Kept              string       // commit of an earlier session's work that is not in the worktree; empty means none
	BrokenBy          string       // what the repository's commands should have done that failed; empty if none did
	Broken            quoted       // how they failed
	Absent            quoted       // what the checkout lacks, and why; empty if it is complete
	Tree              string       // path of the checkout
	Answer, Verdict   string       // paths of the files to which the CLI writes its answer
}

type remark struct {
	Author string
	Body   quoted
}

type issueText struct {
	Number      int64
	Title, Body quoted
	Author      string
	Comments    []remark // none for a review
}

type reviewText struct {
	Author, State string
	Body          quoted
	Inline        []inlineText
}

type inlineText struct {
	Path quoted
	Line int64
	Body quoted
}

type triedText struct {
	Agent, Kind, Outcome string
	Reason               quoted
}

// triedTexts converts earlier sessions. Their reasons were written by programs, so they are quoted.
func triedTexts(list []agents.Tried) (all []triedText) {
	for _, t := range list {
		all = append(all, triedText{
			Agent: firstWords(t.Agent), Kind: firstWords(string(t.Kind)), Outcome: firstWords(string(t.Outcome)),
			Reason: quoted(firstWords(t.Reason)),
		})
	}
	return all
}

type check struct {
	Name  quoted
	State string
	URL   quoted
	Words quoted
	Log   quoted // end of the log; empty if it cannot be read
}

// source returns a template by its name. If it has none, the error is fs.ErrNotExist or forge.ErrNotFound.
type source func(name string) (string, error)

func embedded(name string) (string, error) {
	text, err := prompts.ReadFile("prompts/" + name)
	return string(text), err
}

// findPrompt returns the template for a role's kind of work, and its name. A template for the role takes precedence
// over one for the kind. For each name, the first source that has it counts.
func findPrompt(role, kind string, sources []source) (name, text string, err error) {
	names := []string{role + ".md", kind + ".md"}
	if kind == "rework" || kind == "plan" || kind == agents.CauseSplit {
		names[0] = role + "-" + kind + ".md"
	}
	for _, name := range names {
		for _, s := range sources {
			text, err := s(name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, forge.ErrNotFound) {
				continue
			}
			if err != nil {
				return "", "", fmt.Errorf("cannot read the prompt %s: %w", name, err)
			}
			return name, text, nil
		}
	}
	return "", "", fmt.Errorf("there is no prompt %s or %s", names[0], names[1])
}

var unknownVariable = regexp.MustCompile(`can't evaluate field (\w+)`)

// renderPrompt renders a template.
func renderPrompt(name, text string, d *promptData) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err == nil {
		_, err = t.New(beginning).Parse(begin)
	}
	if err == nil {
		_, err = t.New(stopping).Parse(stoppedPrompt)
	}
	if err != nil {
		return "", fmt.Errorf("cannot use the prompt: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, d); err != nil {
		if m := unknownVariable.FindStringSubmatch(err.Error()); m != nil {
			return "", fmt.Errorf("cannot use the prompt %s: there is no variable .%s", name, m[1])
		}
		return "", fmt.Errorf("cannot use the prompt: %w", err)
	}
	if strings.TrimSpace(b.String()) == "" {
		return "", errors.New("cannot use the prompt " + name + ": it comes out empty")
	}
	return b.String(), nil
}

// cut returns the whole lines in the first limit bytes of a text, and marks the cut.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[:limit]
	if i := strings.LastIndexByte(text, '\n'); i > 0 {
		text = text[:i]
	}
	return strings.ToValidUTF8(text, "") + "\n[cut: the text continues]"
}

// cutFront returns the whole lines in the last limit bytes of a text, and marks the cut.
func cutFront(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		text = rest
	}
	return "[cut: the beginning is missing]\n" + strings.ToValidUTF8(text, "")
}

// lastLine returns the last line of a text that is not empty.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
