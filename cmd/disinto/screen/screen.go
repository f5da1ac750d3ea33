// Package screen turns documents into text for a terminal or a pipe. Its functions depend only on the document and the
// View: they read no clock, file or environment, so golden files can test all output.
package screen

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// View has the settings for showing a document. Each method returns the text of one document; every line ends with a
// line break.
type View struct {
	Now    time.Time // the time for computing ages
	Width  int       // the largest number of columns of a line; 0 means no limit
	Height int       // the lines of the terminal, which a status fits; 0 means no limit
	Colour bool      // whether escape sequences colour the text
	All    bool      // whether a status shows every waiting item and ended session
	Lost   bool      // no supervisor answers: the status is the last saved one, from Now

	// Asked is the argument of a command about one item. Its hints call the item by a number alone only if the person
	// did: with several repositories a number alone is refused.
	Asked string

	repo string // the only repository of the document, which references omit; empty if there are several
}

func (v View) page() *page { return &page{width: v.Width, colour: v.Colour} }

// cut shortens text to n columns, unless the width is unlimited.
func (v View) cut(text string, n int) string {
	if v.Width == 0 {
		return text
	}
	return cut(text, n)
}

// ago returns the time since t; empty for the zero time.
func (v View) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return control.Age(v.Now.Sub(t))
}

// work returns a name such as "issue #12", with the repository if there are several. Scheduled work has no number.
func (v View) work(kind agents.Kind, repo string, number int64) string {
	ref := forge.Ref{Repo: repo, Number: number}
	switch {
	case v.repo == "":
		return string(kind) + " " + ref.String()
	case number == 0:
		return string(kind)
	}
	return string(kind) + " " + ref.Short()
}

// short omits the repository from the references in a text, if there is only one repository. Those in commands are
// typed.
func (v View) short(text string) string {
	if v.repo == "" {
		return text
	}
	text = strings.ReplaceAll(text, v.repo+"#", "#")
	if !strings.Contains(text, "disinto ") {
		return text
	}
	return inCommand.ReplaceAllString(text, "${1}"+v.typed(v.repo+"#"))
}

// inCommand matches the # of a reference in a command.
var inCommand = regexp.MustCompile("(disinto [a-z-]+(?: [a-z-]+)? )#")

// typed shortens the references in a text with commands. Unlike short it also omits the #, which starts a comment in a
// shell.
func (v View) typed(text string) string {
	if _, err := strconv.ParseInt(v.Asked, 10, 64); v.repo == "" || v.Asked != "" && err != nil {
		return text
	}
	return strings.ReplaceAll(text, v.repo+"#", "")
}

// Sling shows which agent takes an issue, or why the issue waits.
func (v View) Sling(r *control.SlingReport) string { return v.sentence(r.Line()) }

// sentence returns one line, wrapped to the width.
func (v View) sentence(text string) string {
	p := v.page()
	p.line(text, plain)
	return p.text.String()
}

// Report shows the result of a command in one line.
func (v View) Report(r *control.Report) string { return v.sentence(r.Line()) }
