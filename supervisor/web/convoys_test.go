package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

func member(n int64, state threads.MemberState, wave int, dependsOn ...string) threads.Member {
	return threads.Member{
		Repo: "o/r", Number: n, Title: fmt.Sprintf("task %d", n), State: state, Wave: wave, DependsOn: dependsOn,
	}
}

// tea is a convoy in which one member is done, one runs, one is ready, and two are blocked.
func tea() threads.Convoy {
	members := []threads.Member{
		member(1, threads.MemberDone, 0), member(2, threads.MemberRunning, 1, "o/r#1"), member(3, threads.MemberReady, 1),
		member(4, threads.MemberBlocked, 2, "o/r#2", "o/r#3"), member(5, threads.MemberBlocked, 2, "o/r#4", "x/y#9"),
	}
	members[1].Agent, members[3].Why, members[4].Title = "dev-qwen", "blocked by o/r#2", hostile
	counts := make(map[threads.MemberState]int)
	for _, m := range members {
		counts[m.State]++
	}
	return threads.Convoy{
		Repo: "o/r", Number: 10, Title: hostile, State: threads.ConvoyStaged, Known: true, Counts: counts, Members: members,
	}
}

// Members are in the column of their wave. A line leads from each to those on its right that depend on it.
func TestWaves(t *testing.T) {
	c := tea()
	sec := waves(convoyOf(&c))
	text := string(sec.Rows[0].HTML)
	for what, want := range map[string]int{
		"<rect": 5, "<path": 3, `x="0" y="24"`: 3, `x="230" y="24"`: 3,
		`x="460" y="78"`: 3,
	} {
		if n := strings.Count(text, what); n != want {
			t.Errorf("%s: found %d times, want %d:\n%s", what, n, want, text)
		}
	}
	if !strings.Contains(text, ">done<") || !strings.Contains(text, ">wave 2<") || sec.Note != "2 waves left" {
		t.Errorf("got note %q and\n%s", sec.Note, text)
	}
	line := curve(boxWidth, graphTop+boxHeight/2, boxWidth+gapX, graphTop+boxHeight/2)
	if !strings.Contains(text, line) {
		t.Errorf("want the line %s from the first wave to the second:\n%s", line, text)
	}
}

// Two hundred members of one wave fill several columns, and no two overlap.
func TestManyMembers(t *testing.T) {
	st := stage{Title: "wave 1"}
	for n := range int64(200) {
		st.Members = append(st.Members, member(n+1, threads.MemberReady, 1))
	}
	g := draw("all", []stage{
		{},
		st,
		{Title: "wave 2", Members: []threads.Member{member(201, threads.MemberBlocked, 2, "o/r#200")}},
	})
	at := make(map[string]bool)
	for _, b := range g.Boxes {
		at[fmt.Sprint(b.X, b.Y)] = true
		if b.X+boxWidth > g.Width || b.Y+boxHeight > g.Height {
			t.Errorf("%s at %d, %d is outside the graph of %d x %d", b.Name, b.X, b.Y, g.Width, g.Height)
		}
	}
	if len(at) != 201 || g.Height > 1000 || len(g.Lines) != 1 {
		t.Errorf("got %d places, a graph of %d x %d, %d lines", len(at), g.Width, g.Height, len(g.Lines))
	}
}

// The pages show text from the forge as text, the members that are next, and the commands.
func TestConvoyPages(t *testing.T) {
	v := newVisit(t)
	v.api.answers["/v1/convoys"] = control.Convoys{Convoys: []threads.Convoy{tea()}}
	v.signIn()
	for path, wants := range map[string][]string{
		"/convoys": {
			"1 of 5 done", ">Staged<", "/do/convoy-start",
			`aria-label="1 done, 1 running, 1 ready, 2 blocked"`,
		},
		"/convoy?ref=" + "o%2Fr%2310": {"Next, as soon as", "dev-qwen", "task 3", "/do/convoy-cancel"},
	} {
		status, page := v.get(path)
		if status != http.StatusOK || strings.Contains(page, "<img") {
			t.Errorf("%s: got status %d\n%s", path, status, page)
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not have %q:\n%s", path, want, page)
			}
		}
	}
	_, page := v.get("/convoys")
	form := url.Values{"ref": {"o/r#10"}, "secret": {v.secret(page)}, "back": {"/convoys"}}
	v.post("/do/convoy-start", v.server.URL, form)
	v.post("/do/convoy-cancel", v.server.URL, form)
	if got := v.api.commands(); got != `/v1/convoy/start {"ref":"o/r#10"}; /v1/convoy/cancel {"ref":"o/r#10"}` {
		t.Errorf("got commands %s", got)
	}
	v.api.set("/v1/convoys", control.Convoys{})
	if _, page := v.get("/convoys"); !strings.Contains(page, "No batch is open") {
		t.Errorf("without convoys: got\n%s", page)
	}
	if status, _ := v.get("/convoy"); status != http.StatusNotFound {
		t.Errorf("/convoy without a ref: got status %d, want 404", status)
	}
}

// An issue's page lists its dependencies and the issues that depend on it.
func TestDependencies(t *testing.T) {
	if sec := dependencies("before", "Depends on", nil); sec.Rows != nil || sec.Empty != "" {
		t.Errorf("an issue without dependencies: got %+v, want nothing", sec)
	}
	m := member(2, threads.MemberRunning, 0)
	m.Title = hostile
	text := string(dependencies("before", "Depends on", []threads.Member{m}).Rows[0].HTML)
	if !strings.Contains(text, "o%2Fr%232") || !strings.Contains(text, ">Running<") || strings.Contains(text, "<img") {
		t.Errorf("got\n%s", text)
	}
}
