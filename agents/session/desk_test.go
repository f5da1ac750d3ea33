package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// fakeDesk answers from its fields. Methods without a field must not be called.
type fakeDesk struct {
	Desk
	comments []forge.Comment
	failed   []forge.Check
	logs     map[string]string // by the check's name; a missing log cannot be read
	pull     forge.Pull
	files    map[string]string
	issues   []int64 // numbers of the readable issues
}

func (d *fakeDesk) Comments(context.Context, forge.Ref) ([]forge.Comment, error) {
	return d.comments, nil
}

func (d *fakeDesk) Checks(context.Context, string, string) ([]forge.Check, error) {
	return d.failed, nil
}

func (d *fakeDesk) CheckLog(_ context.Context, _ string, c forge.Check) (string, error) {
	text, ok := d.logs[c.Name]
	if !ok {
		return "", forge.ErrForbidden
	}
	return text, nil
}

func (d *fakeDesk) Pull(context.Context, forge.Ref) (forge.Pull, error) { return d.pull, nil }

func (d *fakeDesk) Issue(_ context.Context, ref forge.Ref) (forge.Issue, error) {
	if !slices.Contains(d.issues, ref.Number) {
		return forge.Issue{}, forge.ErrNotFound
	}
	return forge.Issue{Ref: ref, Title: "T"}, nil
}

func (d *fakeDesk) File(_ context.Context, _, path string) (string, error) {
	text, ok := d.files[path]
	if !ok {
		return "", forge.ErrNotFound
	}
	return text, nil
}

func (d *fakeDesk) run(t *testing.T) *run {
	item := work{Repo: "a/b", Number: 3, Role: "dev", Kind: "issue"}
	return &run{Program: &Program{Desk: d, Out: t.Output(), Now: time.Now}, work: item}
}

// A prompt has the oldest comments, skips empty ones, and cuts a long one.
func TestComments(t *testing.T) {
	long := strings.Repeat("line\n", maxRemark)
	d := &fakeDesk{comments: []forge.Comment{{Author: "ada", Body: long}, {Author: "bot", Body: " \n"}}}
	for i := range maxRemarks {
		d.comments = append(d.comments, forge.Comment{Author: "bob", Body: fmt.Sprint(i)})
	}
	got, err := d.run(t).comments(t.Context())
	if err != nil || len(got) != maxRemarks || len(got[0].Body) > maxRemark+100 || got[1].Body != "0" {
		t.Errorf("%d comments, %v", len(got), err)
	}
}

// A failed check has the end of its log, or no log if it cannot be read.
func TestChecks(t *testing.T) {
	long := strings.Repeat("a line of the build\n", 1000) + "FAIL: the last line\n"
	failed := []forge.Check{{Name: "ci", State: "failure", Text: "broke"}, {Name: "hidden"}}
	d := &fakeDesk{failed: failed, logs: map[string]string{"ci": long}}
	got, err := d.run(t).checks(t.Context(), "abc")
	if err != nil || len(got) != 2 || got[0].Words != "broke" || got[1].Log != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	text := string(got[0].Log)
	begins := strings.HasPrefix(text, "[cut: the beginning is missing]\na line of")
	if len(text) > maxLog+100 || !begins || !strings.HasSuffix(text, "the last line\n") {
		t.Errorf("a long log has %d bytes and begins with %.60q, want its end and a note", len(text), text)
	}
}

// Names from the forge are never accepted as git options or other refs. An unreadable issue is left out.
func TestPull(t *testing.T) {
	sha := strings.Repeat("a", 40)
	for want, p := range map[string]forge.Pull{
		"":              {Head: "fix/issue-1", Base: "main", HeadSHA: sha},
		"--upload-pack": {Head: "--upload-pack=x", Base: "main", HeadSHA: sha},
		"a..b":          {Head: "x", Base: "a..b", HeadSHA: sha},
		"HEAD":          {Head: "x", Base: "main", HeadSHA: "HEAD"},
	} {
		_, err := (&fakeDesk{pull: p}).run(t).pull(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want an error with %q", p, err, want)
		}
	}
	p := forge.Pull{Closes: []forge.Ref{{Repo: "a/b", Number: 1}, {Repo: "a/b", Number: 2}, {Repo: "x/y", Number: 1}}}
	if got := (&fakeDesk{issues: []int64{1}}).run(t).issuesOf(t.Context(), &p); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("issues %+v", got)
	}
}

// A template of the profile takes precedence, even an empty one.
func TestPromptOfProfile(t *testing.T) {
	d := &fakeDesk{files: map[string]string{"prompts/dev.md": "Mine: {{.Title}}"}}
	r := d.run(t)
	r.profile = &profile{repo: "a/dev-profile"}
	if got, err := r.prompt(t.Context(), &promptData{Title: "T"}); err != nil || got != "Mine: ~~~~text\nT\n~~~~" {
		t.Errorf("%q, %v", got, err)
	}
	got, err := r.prompt(t.Context(), &promptData{Title: "T", Diff: "+new", Parts: 3}) // which it does not use
	if err != nil || !strings.Contains(got, "~~~~text\n+new\n~~~~") || !strings.Contains(got, "part 1 of 3") {
		t.Errorf("%q, %v, want the difference", got, err)
	}
	d.files["prompts/dev.md"] = ""
	if got, err := r.prompt(t.Context(), &promptData{}); err == nil || !strings.Contains(err.Error(), "comes out empty") {
		t.Errorf("of an empty file: %q, %v", got, err)
	}
}
