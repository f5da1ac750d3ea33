package worlds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
	"codeberg.org/johba/disinto/threads/ledger"
)

// TestTurns plays ten repositories: the oldest issues, thirty of them, are all in one, and each other one has a single
// issue. Later each of the nine gets another one. Every issue of the nine starts in the first turn of its repository,
// and every issue is done.
func TestTurns(t *testing.T) {
	for _, thread := range []string{
		"backend = \"api\"\nmax_concurrent = 3", "backend = \"local\"\nmax_concurrent = 1",
		"backend = \"local\"\nmax_concurrent = 2\nhold = \"10m\"",
	} {
		var repos []string
		for i := range 10 {
			repos = append(repos, fmt.Sprintf("o/r%d", i))
		}
		c, err := file.Decode("factory.toml", "[forge]\nurl = \"http://f\"\ntoken = \"t\"\nmax_sessions_per_day = 1000\n"+
			fmt.Sprintf("repos = [\"%s\"]\n", strings.Join(repos, `", "`))+
			"[threads.t]\n"+thread+"\nagents = [\"dev-a\", \"dev-b\", \"dev-c\"]\n[roles.dev]\ncommand = [\"x\"]\n",
			func(string) (string, bool) { return "t", true })
		if err != nil {
			t.Fatal(err)
		}
		w, filed := newCourse(c), int64(0)
		file := func(repo string) {
			filed++
			w.file(nil)
			w.issues[len(w.issues)-1].Ref = forge.Ref{Repo: repo, Number: filed}
			slices.SortFunc(w.issues, func(a, b forge.Issue) int { return a.Ref.Compare(b.Ref) })
		}
		for range 30 {
			file("o/r0")
			w.now = w.now.Add(time.Minute)
		}
		for _, repo := range repos[1:] {
			file(repo)
		}
		began := w.work(t, 15)
		for _, repo := range repos[1:] {
			file(repo)
		}
		began = append(began, w.work(t, 100)...)
		for i, want := range map[int]int{10 + c.Threads[0].Slots: 9, 25 + c.Threads[0].Slots: 18} {
			others := slices.DeleteFunc(slices.Clone(began[:i]), func(repo string) bool { return repo == "o/r0" })
			if len(others) != want {
				t.Errorf("%s\nof the first %d starts, %d were in the nine, want %d: %v", thread, i, len(others), want, began)
			}
		}
		if len(w.issues) > 0 || len(began) != 48 {
			t.Errorf("%s\n%d sessions began, and %d issues are left", thread, len(began), len(w.issues))
		}
	}
}

// work lets sessions do an issue in twenty minutes, one after the other, until so many have begun or nothing is left.
// It returns the repositories of the starts.
func (c *course) work(t *testing.T, most int) (began []string) {
	for len(began) < most && len(c.issues) > 0 {
		if len(c.runs) > 0 {
			c.done(c.runs[0])
		}
		plan := c.plan()
		for i := range plan.Starts {
			c.starts(&plan.Starts[i])
			began = append(began, plan.Starts[i].Item.Ref.Repo)
			c.now = c.now.Add(time.Minute)
		}
		if len(c.runs) == 0 && len(c.issues) > 0 {
			t.Fatalf("nothing starts: %+v", plan.Holds[0].Reason.Text())
		}
	}
	return began
}

// done ends a session whose issue is then closed.
func (c *course) done(x threads.Session) {
	c.now = c.now.Add(20 * time.Minute)
	c.runs = slices.DeleteFunc(c.runs, func(o threads.Session) bool { return o.RunID == x.RunID })
	c.issues = slices.DeleteFunc(c.issues, func(is forge.Issue) bool { return is.Ref == x.Item.Ref })
	c.record(ledger.Record{End: &ledger.End{Run: x.RunID, Result: agents.Done}})
	c.record(ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
}
