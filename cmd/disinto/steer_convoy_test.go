package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each answer to sling has its output and exit code: an agent, the first reason with the place in the queue, or a
// refusal.
func TestSlingAnswers(t *testing.T) {
	on := control.SlingReport{Repo: "johba/harb", Number: 17, Agent: "dev-qwen", Thread: "llama", Slot: 1}
	blocked := control.SlingReport{
		Repo: "johba/harb", Number: 8, Code: threads.BlockerOpen,
		Why: "blocked by johba/harb#7", Position: 3,
	}
	for _, tt := range []struct {
		name           string
		status         int
		answer         string
		code           int
		stdout, stderr string
	}{
		{"taken", 200, jsonOf(t, on), exitDone, "dev-qwen is on it: johba/harb#17, slot llama/1\n", ""},
		{
			"blocked", 200, jsonOf(t, blocked), exitNotNow,
			"johba/harb#8: not yet: blocked by johba/harb#7 (place 3 in the queue)\n", "",
		},
		{
			"refused", 409, `{"error":"cannot start johba/harb#9: it is closed"}`, exitFailed, "",
			"disinto: cannot start johba/harb#9: it is closed\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, _ := obedient(t, tt.status, tt.answer)
			got := disinto(t.Context(), nil, "sling", "17", "--state", state)
			if got.code != tt.code || got.stdout != tt.stdout || got.stderr != tt.stderr {
				t.Errorf("got exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
			}
		})
	}
	// sling --json prints null for no agent, even with an older supervisor that sends an empty name.
	for agent, want := range map[string]string{`""`: "null", "null": "null", `"dev-qwen"`: `"dev-qwen"`} {
		state, _ := obedient(t, 200, `{"repo":"johba/harb","number":8,"agent":`+agent+`}`)
		got := disinto(t.Context(), nil, "sling", "8", "--json", "--state", state)
		if !strings.Contains(got.stdout, `"agent": `+want+",\n") {
			t.Errorf("sling --json with agent %s: got %s", agent, got.stdout)
		}
	}
}

// Each sling sends the supervisor its request.
func TestSlingOrders(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"12"}, `{"ref":"12"}`},
		{
			[]string{"--title", "T", "--body", "B", "--role", "dev", "--skill", "go", "--depends-on", "1,2", "--repo", "a/b"},
			`{"title":"T","body":"B","repo":"a/b","role":"dev","skills":["go"],"depends_on":["1","2"]}`,
		},
	} {
		state, told := obedient(t, 200, `{"agent":"dev-qwen"}`)
		got := disinto(t.Context(), nil, append([]string{"sling", "--state", state}, tt.args...)...)
		if said := told(); got.code != exitDone || said != "POST /v1/sling application/json "+tt.want {
			t.Errorf("%v: got exit code %d and the request %s, want %s", tt.args, got.code, said, tt.want)
		}
	}
}

// A wrong command line is refused without a request to the supervisor.
func TestConvoyUsage(t *testing.T) {
	dir := t.TempDir()
	circle := filepath.Join(dir, "circle.md")
	if err := os.WriteFile(circle, []byte("# T\n## a\nDepends on: 2\n## b\nDepends on: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"convoy", "create", circle}, circle + ":2: the tasks wait for each other: 1 -> 2 -> 1"},
		{[]string{"convoy", "create", filepath.Join(dir, "none.md")}, "no such file"},
		{[]string{"convoy", "create", "1", "2"}, "a convoy of issues needs --title"},
		{
			[]string{"convoy", "create", "--title", "T", "one"},
			`cannot read "one" as an issue: write 12, #12 or owner/name#12, or name a plan`,
		},
		{
			[]string{"convoy", "create", "https://forge.example.org/o/r/issues/12"},
			"a convoy of issues needs --title",
		},
		{[]string{"convoy", "create"}, "usage: disinto batch create PLAN | --title TITLE REF..."},
		{[]string{"convoy", "start"}, "usage: disinto batch start REF"},
		{[]string{"convoy"}, "name one of the commands batch create, batch list"},
		{[]string{"sling"}, "give REF, or --title to create an issue"},
		{[]string{"sling", "1", "--title", "T"}, "an existing issue is not edited"},
		{[]string{"sling", "o/one"}, `cannot read "o/one" as an issue`},
	} {
		got := disinto(t.Context(), nil, append(tt.args, "--state", dir)...)
		if got.code == exitDone || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("%q: got exit code %d, %q, want %q", tt.args, got.code, got.stderr, tt.want)
		}
	}
}

// convoy status prints a convoy under way and one whose members are not read yet.
func TestConvoyStatus(t *testing.T) {
	member := func(n int64, wave int, title string, s threads.MemberState, agent, why string) threads.Member {
		return threads.Member{Repo: "johba/harb", Number: n, Title: title, State: s, Wave: wave, Agent: agent, Why: why}
	}
	c := threads.Convoy{
		Repo: "johba/harb", Number: 20, Title: "Take orders by mail", State: threads.ConvoyStarted, Known: true,
		Counts: map[threads.MemberState]int{
			threads.MemberDone: 1, threads.MemberFailed: 1, threads.MemberRunning: 1,
			threads.MemberBlocked: 2,
		},
		Members: []threads.Member{
			member(11, 0, "Read an order from a mail", threads.MemberDone, "", ""),
			member(12, 1, "Answer with a price", threads.MemberRunning, "dev-qwen", ""),
			member(13, 1, "Answer politely \x1b[31m", threads.MemberFailed, "", "gave up after 5 attempts"),
			member(14, 2, "Send the answer", threads.MemberBlocked, "", "blocked by johba/harb#12, johba/harb#13"),
			{Repo: "johba/other", Number: 3, State: threads.MemberBlocked, Wave: 2, Why: "the forge is not read"},
		},
	}
	unread := threads.Convoy{
		Repo: "johba/harb", Number: 30,
		Title: "Later, and with a title that is so long that it does not fit beside the rest", State: threads.ConvoyStaged,
	}
	state := fakeSupervisor(t, map[string]string{
		"/v1/convoys":                       jsonOf(t, control.Convoys{Convoys: []threads.Convoy{c, unread}}),
		"/v1/convoys?ref=20":                jsonOf(t, control.Convoys{Convoys: []threads.Convoy{c}}),
		"/v1/convoys?ref=johba%2Fharb%2331": jsonOf(t, control.Convoys{}),
	})
	got := disinto(t.Context(), nil, "convoy", "status", "--state", state)
	shows(t, got.stdout, "convoys-pipe.txt")
	one := disinto(t.Context(), nil, "convoy", "status", "20", "--state", state)
	if !strings.HasPrefix(got.stdout, one.stdout) || one.code != exitDone {
		t.Errorf("with one ref: got exit code %d\n%s", one.code, one.stdout)
	}
	if none := disinto(t.Context(), nil, "convoy", "status", forge.Ref{Repo: "johba/harb", Number: 31}.String(), "--state",
		state); none.stdout != "no open convoys\n" {
		t.Errorf("without convoys: got %q", none.stdout)
	}
}

// convoy status --watch prints the convoy again after an event, if it has changed.
func TestConvoyStatusWatch(t *testing.T) {
	c := threads.Convoy{
		Repo: "johba/harb", Number: 20, Title: "Sell by mail", State: threads.ConvoyStarted, Known: true,
		Counts: map[threads.MemberState]int{threads.MemberRunning: 1},
		Members: []threads.Member{{
			Repo: "johba/harb", Number: 12, Title: "Read an order", State: threads.MemberRunning,
			Wave: 1, Agent: "dev-qwen",
		}},
	}
	running := jsonOf(t, control.Convoys{Convoys: []threads.Convoy{c}})
	c.State, c.Counts = threads.ConvoyDone, map[threads.MemberState]int{threads.MemberDone: 1}
	c.Members = []threads.Member{{Repo: "johba/harb", Number: 12, Title: "Read an order", State: threads.MemberDone}}
	done := jsonOf(t, control.Convoys{Convoys: []threads.Convoy{c}})
	s := &watched{path: "/v1/convoys?ref=20", tell: make(chan string), answer: running}
	state := serveSocket(t, s)
	ended := make(chan result, 1)
	go func() { ended <- disinto(t.Context(), nil, "convoy", "status", "20", "--watch", "--state", state) }()
	times := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked
	}
	eventually(t, "the first request for the convoy", func() bool { return times() == 1 })
	s.tell <- "held" // the convoy has not changed
	eventually(t, "the second request for the convoy", func() bool { return times() > 1 })
	s.set(done)
	before := times()
	s.tell <- "closed"
	eventually(t, "the third request for the convoy", func() bool { return times() > before })
	s.set("")
	close(s.tell)
	got := <-ended
	const want = `convoy  johba/harb#20  Sell by mail
started, 1 member: 1 running

WAVE  ISSUE  STATE    AGENT     TITLE          WHY
1     #12    running  dev-qwen  Read an order

convoy  johba/harb#20  Sell by mail
done, 1 member: 1 done

WAVE  ISSUE  STATE  AGENT  TITLE          WHY
      #12    done          Read an order
`
	if got.code != exitFailed || got.stdout != want {
		t.Errorf("got exit code %d, %s\n%s", got.code, got.stderr, got.stdout)
	}
}
