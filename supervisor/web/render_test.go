package web

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Text from the forge cannot reverse the page's text, nor the browser tab's title, where no markup can isolate it.
func TestVisible(t *testing.T) {
	const title = "o/r#7 \u202egnp.exe\u2066\x1b[31m\u009b\x00\u200b 👩\u200d💻"
	w := httptest.NewRecorder()
	send(w, 200, "page", &sheet{board: &board{Title: title}, Visitor: &visitor{}})
	want := "o/r#7 gnp.exe[31m\ufffd 👩\u200d💻" // html/template writes U+FFFD for NUL
	if body := w.Body.String(); strings.Count(body, want) != 2 {
		t.Errorf("want %q in title and heading: %s", want, body)
	}
	got := string(render("shares", "x", map[string]any{"Words": "a\u202eb", "Shares": nil}).HTML)
	if !strings.Contains(got, "<title>ab</title>") || !strings.Contains(got, `aria-label="ab"`) {
		t.Errorf("got the tooltip %s", got)
	}
}

// A pause of the whole factory is shown once, with its way out.
func TestPausedOnce(t *testing.T) {
	first := []string{"first start: 2 items wait: disinto resume starts them"}
	for _, tt := range []struct {
		d            control.Document
		banner, need string
	}{
		{control.Document{Paused: true}, "Everything is paused", ""},
		{
			control.Document{Paused: true, PauseNote: threads.PauseNote{PausedBy: "ada", PausedWhy: "<b>"}},
			"Everything is paused</strong> by <bdi>ada</bdi>: <bdi>&lt;b&gt;</bdi>", "",
		},
		{control.Document{Paused: true, Problems: first}, "", "first start"},
		{control.Document{}, "", ""},
	} {
		if got := needs(&tt.d) == 1; got != tt.d.Paused { // as in status; on other pages there is no Waiting
			t.Errorf("%+v: one thing needs a person: %t", tt.d, got)
		}
		tt.d.Waiting = new(control.WaitingDocument)
		for want, sec := range map[string]section{tt.banner: paused(&tt.d), tt.need: needsYou(&tt.d)} {
			if (len(sec.Rows) > 0) != (want != "") || want != "" && !strings.Contains(string(sec.Rows[0].HTML), want) {
				t.Errorf("%+v: got %+v, want %q", tt.d, sec.Rows, want)
			}
		}
	}
}

// A fault has the pill of what it is about, and its button.
func TestFaults(t *testing.T) {
	d := &control.Document{
		Config:   control.ConfigDocument{Path: "factory.toml", Error: "cannot read the secrets", Generation: 1},
		Forge:    control.ForgeDocument{Error: "no answer", URL: "http://forge"},
		Alarms:   []control.AlarmDocument{{Code: threads.TokenRejected, Words: "`disinto resume dev`", Since: noon}},
		Problems: []string{"first start: 2 items wait: disinto resume starts them", "the journal cannot be written"},
		Waiting:  new(control.WaitingDocument),
	}
	want := []string{
		"Configuration", "Configuration", "Forgejo", "Token rejected", "Paused", "Factory",
	}
	buttons := []string{"", "", `href="http://forge"`, `name="name" value="dev"`, `name="name" value=""`, ""}
	sec := needsYou(d)
	if len(sec.Rows) != len(want) {
		t.Fatalf("got %d rows, want %d", len(sec.Rows), len(want))
	}
	for i, r := range sec.Rows {
		text := string(r.HTML)
		if !strings.Contains(text, ">"+want[i]+"<") || !strings.Contains(text, buttons[i]) {
			t.Errorf("got %s, want %s and %s", text, want[i], buttons[i])
		}
	}
}

// A service shows why it cannot be used, or else the last line that it printed.
func TestServices(t *testing.T) {
	d := control.Document{Services: []control.ServiceDocument{
		{Name: "gpu", State: "ready", PID: 7, LastLine: "<2 devices>"},
		{Name: "llama", State: "resting", Why: "llama: exit status 1", LastLine: "no GPU"},
	}}
	var text strings.Builder
	for _, r := range system(&d).Rows {
		text.WriteString(string(r.HTML))
	}
	got := text.String()
	for _, want := range []string{"&lt;2 devices&gt;", "llama: exit status 1", "resting"} {
		if !strings.Contains(got, want) || strings.Contains(got, "no GPU") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A bar of progress is as wide as the share of the usual time, and changes colour beyond it. The row itself does not
// change with time.
func TestProgress(t *testing.T) {
	x := control.SessionDocument{Kind: "issue", StartedAt: noon, UsualSeconds: 600}
	html := []byte(render("session", "x", x).HTML)
	x.Doing = agents.Doing{Phase: agents.PhaseForge, Since: noon}
	for _, row := range []string{"session", "runs"} {
		if got := string(render(row, "x", x).HTML); !strings.Contains(got, "waiting for the forge, <time") {
			t.Errorf("got %s, want what the session waits for", got)
		}
	}
	for minutes, want := range map[int]string{
		0: `width="1"`, 5: `width="50"`, 10: `width="100"`, 11: `width="100" class="over"`,
	} {
		if got := string(drawProgress(html, noon.Add(time.Duration(minutes)*time.Minute))); !strings.Contains(got, want) {
			t.Errorf("after %d minutes: got %s, want %s", minutes, got, want)
		}
	}
}

// Every command in a remedy is a button, once; words without one are shown.
func TestRemedies(t *testing.T) {
	for mend, want := range map[string]string{
		"look at it, then `disinto retry o/r#6`; removing `needs-human` resets nothing": "retry ref=o/r#6",
		"`disinto approve o/r#7`, or a thumbs-up":                                       "approve ref=o/r#7",
		"`disinto batch start o/r#8`":                                                   "convoy-start ref=o/r#8",
		"`disinto resume`":                                                              "resume name=",
		"`disinto retry o/r#6` or `disinto retry o/r#6`":                                "retry ref=o/r#6",
		"remove one dependency of the circle":                                           "",
	} {
		var got []string
		for _, b := range remedies(mend) {
			got = append(got, b.Command+" "+b.Field+"="+b.Value)
			if commands[b.Command] == nil {
				t.Errorf("%s: the button %s has no command", mend, b.Command)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %v, want %s", mend, got, want)
		}
	}
}

// What a person has to do is in reach of one click for every reason that waits for a person.
func TestEveryNeedHasAButton(t *testing.T) {
	for _, doc := range threads.Codes() {
		r := threads.Reason{Code: doc.Code, Agent: "dev-qwen", Refs: []forge.Ref{{Repo: "o/r", Number: 2}}}
		if !r.NeedsPerson() {
			continue
		}
		q := control.QueueDocument{
			Repo: "o/r", Number: 1, Kind: "issue", Code: doc.Code, Why: r.Text(), Mend: r.MendFor("o/r#1"), NeedsPerson: true,
		}
		buttons := buttonsFor(&q, "http://forge")
		if len(buttons) == 0 || buttons[0].Class != "soft" {
			t.Errorf("%s: got %+v, want the remedy first", doc.Code, buttons)
		}
	}
}

// No button drops a dependency. The page says where a person drops it, and its first button leads there.
func TestDependencyIsDroppedOnTheForge(t *testing.T) {
	d := stuck()
	d.Mend = (&threads.Reason{Code: threads.BlockerCycle}).Mend()
	page := string(reasonOf(d, &threads.Explanation{Code: threads.BlockerCycle}, "http://forge").Rows[0].HTML)
	for _, want := range []string{
		`class="btn primary" href="http://forge/o/r/issues/7"`, ">Forgejo<", d.Mend + " (on Forgejo: edit the line",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("got\n%s\nwant %s", page, want)
		}
	}
	if whereDropped(threads.BlockerOpen) != "" {
		t.Error("an issue that waits for an open one is told to drop it")
	}
}

// A line of a log does not become a link, but the pull request that a session opened is one.
func TestResult(t *testing.T) {
	for text, want := range map[string]bool{"opened #9": true, "see x/y#9": false, "opened #9 and #10": false} {
		if got := strings.Contains(string(result("o/r", text)), "<a "); got != want {
			t.Errorf("%q is a link: %v, want %v", text, got, want)
		}
	}
	if got := result("o/r", hostile); strings.Contains(string(got), "<img") {
		t.Errorf("got the markup %s", got)
	}
}

// A time in a sentence is one element with its preposition, so that the script can write the age over both.
func TestWordsInTime(t *testing.T) {
	got := string(wordsIn("o/r", "asked at 2026-11-22T12:00:00Z below #7 until 2026-11-22T13:00:00Z"))
	for _, want := range []string{
		`asked <time datetime="2026-11-22T12:00:00Z" class="in at ">at 22 Nov 12:00 UTC</time>`, `class="in until ">until 22`,
		`<a href="/issue?ref=o%2Fr%237">`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// However much runs and waits for a person, the page Now is short, and says what it leaves out.
func TestNowIsShort(t *testing.T) {
	v := newVisit(t)
	d := status()
	d.Repos, d.Queue = []control.RepoDocument{{Name: "o/r"}}, nil
	d.Sessions = slices.Repeat(d.Sessions, 200)
	for i := range int64(60) {
		d.Queue = append(d.Queue, control.QueueDocument{
			Repo: "o/r", Number: i + 1, Kind: agents.KindIssue, Title: strings.Repeat("a long title ", 5), Code: threads.GaveUp,
			Why: "gave up after 3 attempts", Mend: "`disinto retry o/r#" + fmt.Sprint(i+1) + "`", NeedsPerson: true,
		})
	}
	v.api.set("/v1/state", d)
	v.signIn()
	_, page := v.get("/")
	for _, want := range []string{"and 191 more</a>", "and 52 more", `class="btns phone"`, "and 55 more"} {
		if !strings.Contains(page, want) || len(page) > mostPage {
			t.Errorf("the page of %d bytes, at most %d, does not say %q:\n%s", len(page), mostPage, want, page)
		}
	}
}
