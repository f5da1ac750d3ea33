// Package screen turns documents into text for a terminal or a pipe. Its functions depend on nothing but the document
// and the View: they read no clock, file or environment, so that golden files can hold every picture.
package screen

import (
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// View says how to show a document. It is a value: each method returns the text of one document, with a line break at
// the end of every line.
type View struct {
	Now    time.Time // the time from which ages count
	Width  int       // in columns, of every line; 0 is as wide as it gets
	Height int       // in lines; 0 is as long as it gets
	Colour bool      // whether escape sequences colour the text
	Lost   bool      // no supervisor answers: the status is the last that was written down, at Now

	repo string // the one repository of the document, which is left out of its references
}

func (v View) page() *page { return &page{width: v.Width, colour: v.Colour} }

// cut shortens text to n columns, unless lines may be as wide as they get.
func (v View) cut(text string, n int) string {
	if v.Width == 0 {
		return text
	}
	return cut(text, n)
}

// crop cuts what does not fit on the screen, such as forty threads on a small one.
func (v View) crop(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if v.Height == 0 || len(lines) <= v.Height+1 {
		return text
	}
	return strings.Join(lines[:v.Height], "")
}

// ago is how long ago t was; empty for the zero time.
func (v View) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return control.Age(v.Now.Sub(t))
}

// work is "issue #12", with the repository where there are several. Scheduled work has no number.
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

// short leaves the repository out of the references in a text where there is only one.
func (v View) short(text string) string {
	if v.repo == "" {
		return text
	}
	return strings.ReplaceAll(text, v.repo+"#", "#")
}

// typed is a text with commands in it, whose references are written as a shell takes them: a word that begins with #
// would be a comment.
func (v View) typed(text string) string {
	if v.repo == "" {
		return text
	}
	return strings.ReplaceAll(text, v.repo+"#", "")
}

// Sling says who is on an issue, or why no agent is.
func (v View) Sling(r *control.SlingReport) string { return v.sentence(r.Line()) }

// sentence is one line, wrapped where the screen is narrower.
func (v View) sentence(text string) string {
	p := v.page()
	p.line(text, plain)
	return p.text.String()
}

// Report says what a command came to, in one line.
func (v View) Report(r *control.Report) string { return v.sentence(r.Line()) }
