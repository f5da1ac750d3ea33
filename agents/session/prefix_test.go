package session

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// chainDesk has an issue, its pull request, and the comments on both so far.
type chainDesk struct {
	Desk
	reviews  []forge.FullReview
	comments map[int64][]forge.Comment
	checks   []forge.Check
}

func (d *chainDesk) Writers(context.Context, string) ([]string, error) {
	return []string{"ada", "bob", "dev-qwen", "review-opus"}, nil
}

func (d *chainDesk) Issue(context.Context, forge.Ref) (forge.Issue, error) {
	return forge.Issue{
		Ref: forge.Ref{Repo: "ada/teashop", Number: 12}, Title: "Orders are lost when the kettle restarts", Author: "ada",
		Labels: []string{forge.LabelBacklog}, Body: chainBody,
	}, nil
}

// chainBody is an issue of typical length.
var chainBody = strings.Join([]string{
	"When the kettle restarts while an order is being brewed, the order is gone: the customer sees `404`, and the till",
	"keeps the money. It happened three times last week, each time after the update at four in the morning.",
	"",
	"Steps: 1. `POST /orders` with two teas. 2. `systemctl restart kettle` before the answer. 3. `GET /orders/17` " +
		"says 404.",
	"",
	"Expected: the order is written before it is brewed, and taken up again at the start. An order that was brewed",
	"already must not be brewed twice. The queue in `brew/queue.go` has a place for that (`Pending`), which nothing " +
		"calls.",
	"",
	"Acceptance: a test that kills the kettle at each step of an order, and finds every order once afterwards; the",
	"start takes less than a second with 10,000 orders; no new dependency.",
}, "\n")

func (d *chainDesk) Pull(context.Context, forge.Ref) (forge.Pull, error) {
	return forge.Pull{
		Ref: forge.Ref{Repo: "ada/teashop", Number: 13}, Title: "Write orders before they are brewed (created by dev-qwen)",
		Author: "dev-qwen", Base: "main",
		Head: "fix/issue-12", HeadSHA: strings.Repeat("a", 40), Closes: []forge.Ref{{Repo: "ada/teashop", Number: 12}},
		Body: "created by dev-qwen\n\nOrders go to the journal first, and the start reads it.\n\nFixes #12",
	}, nil
}

func (d *chainDesk) Comments(_ context.Context, ref forge.Ref) ([]forge.Comment, error) {
	return d.comments[ref.Number], nil
}

func (d *chainDesk) Reviews(context.Context, forge.Ref) ([]forge.FullReview, error) {
	return d.reviews, nil
}

func (d *chainDesk) Checks(context.Context, string, string) ([]forge.Check, error) {
	return d.checks, nil
}

func (d *chainDesk) CheckLog(context.Context, string, forge.Check) (string, error) {
	return "--- FAIL: TestRestart (0.01s)\n    queue_test.go:41: order 3 is there twice\n", nil
}

// prompt returns the prompt of a session on the chain.
func (d *chainDesk) prompt(t *testing.T, kind agents.Kind, number int64, id string) string {
	t.Helper()
	r := &run{Program: &Program{Desk: d, Out: new(tail)}}
	r.work = work{
		RunID: id, Agent: "dev-qwen", Role: "dev", Kind: kind, Repo: "ada/teashop", Number: number,
		Workspace: "/var/lib/disinto/work/dev-qwen/ada_teashop_12",
	}
	data := map[agents.Kind]func() (*promptData, error){
		agents.KindIssue: func() (*promptData, error) { return r.issueTexts(t.Context()) },
		agents.KindRework: func() (*promptData, error) {
			p, _ := d.Pull(t.Context(), forge.Ref{})
			return r.reworkPrompt(t.Context(), &p)
		},
	}
	about, err := data[kind]()
	if err != nil {
		t.Fatal(err)
	}
	about.Base, about.Branch, about.Lessons = "main", "fix/issue-12", "Run `make test`; the linter is strict."
	text, err := r.prompt(t.Context(), about)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each prompt on a chain begins with the previous prompt's bytes, at least nine tenths of the shorter one. The text
// before the issue contains no date, path or id, or anything else that differs between the agent's chains.
func TestCommonPrefix(t *testing.T) {
	d := &chainDesk{comments: map[int64][]forge.Comment{12: {{
		ID: 1, Author: "bob",
		Body: "The till has the same bug, see #9.",
	}}}}
	prompts := []string{d.prompt(t, agents.KindIssue, 12, "a1b2c3-20261122T101112")}
	d.reviews = []forge.FullReview{{
		Review: forge.Review{
			Author: "review-opus", Verdict: forge.ChangesRequested,
			Body: "An order is brewed twice when the kettle dies between `Brew` and `Done`.",
		},
		Lines: []forge.LineComment{{
			Path: "brew/queue.go", Line: 41, Author: "review-opus",
			Body: "Write first, then brew.",
		}},
	}}
	prompts = append(prompts, d.prompt(t, agents.KindRework, 13, "a1b2c3-20261122T111213"))
	d.reviews = append(d.reviews, forge.FullReview{Review: forge.Review{
		Author: "review-opus", Verdict: forge.ChangesRequested, Body: "Better. The test does not kill at step 3.",
	}})
	d.comments[13] = []forge.Comment{{ID: 2, Author: "dev-qwen", Body: "It writes first now.\n\ncreated by dev-qwen"}}
	d.checks = []forge.Check{{Name: "ci/test", State: "failure", Text: "1 test failed"}}
	prompts = append(prompts, d.prompt(t, agents.KindRework, 13, "d4e5f6-20261123T010203"))
	for i, name := range []string{"implement", "rework-1", "rework-2"} {
		path := filepath.Join("testdata", "prompts", name+".md")
		if *update {
			writeGolden(t, path, []byte(prompts[i]))
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), prompts[i]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if before, _, _ := strings.Cut(prompts[i], chainBody); strings.ContainsAny(strings.ReplaceAll(before, "#12", ""),
			"0789") || strings.Contains(before, "/var") {
			t.Errorf("%s has a date, a path or an id before the issue's text:\n%s", name, before)
		}
		if i == 0 {
			continue
		}
		was, is := prompts[i-1], prompts[i]
		same := 0
		for same < min(len(was), len(is)) && was[same] == is[same] {
			same++
		}
		if shorter := min(len(was), len(is)); same*10 < shorter*9 {
			t.Errorf("%s begins with %d bytes of the previous prompt, want nine tenths of %d; first change: %s", name, same,
				shorter, firstChange(was, is))
		} else {
			t.Logf("%s: %d of %d bytes", name, same, shorter)
		}
	}
}
