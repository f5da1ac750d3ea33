package agents

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func roomEnv() *Env {
	return &Env{
		Agent: Agent{Name: "dev-a", Login: "dev-a"}, Role: Role{CLI: "claude", Stall: time.Minute}, Kind: KindIssue,
		Backend: API, EnvAllow: []string{"MISTRAL_*"}, Room: Room{Setup: Commands{[][]string{{"npm", "ci"}}, time.Minute}},
	}
}

// A session that writes code gets the room, with the names of the model's keys, which are not its commands' business.
func TestRoom(t *testing.T) {
	base := []string{"ANTHROPIC_API_KEY=sk-1234567890", "MISTRAL_API_KEY=m-1234567890", "NODE_ENV=test", RoomVar + "={}"}
	got, err := ParseRoom(Getenv(Environ(base, roomEnv()), RoomVar))
	want := Room{
		Setup: Commands{[][]string{{"npm", "ci"}}, time.Minute}, Beat: 20 * time.Second,
		Withheld: []string{"ANTHROPIC_API_KEY", "MISTRAL_API_KEY"},
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, change := range map[string]func(*Env){
		"a review":       func(e *Env) { e.Kind = KindReview },
		"a scheduled":    func(e *Env) { e.Kind = KindSchedule },
		"a plan":         func(e *Env) { e.Cause = "plan" },
		"an own program": func(e *Env) { e.Role.CLI = "" },
		"no commands":    func(e *Env) { e.Room = Room{} },
	} {
		e := roomEnv()
		if change(e); slices.ContainsFunc(Environ(base, e), func(v string) bool { return strings.HasPrefix(v, RoomVar) }) {
			t.Errorf("%s got a room", name)
		}
	}
	if _, err := ParseRoom("{"); err == nil {
		t.Error("half a room was taken")
	}
}

// A program reports its steps, so they are bounded and printable.
func TestBoundedSteps(t *testing.T) {
	steps := make([]Step, MaxSteps+1)
	steps[MaxSteps] = Step{
		Phase: "x\x1b[31m", Command: strings.Repeat("é", 1000), Exit: 1e6, Why: "a\nb", Seconds: math.NaN(),
	}
	got := BoundedSteps(steps)
	newest := got[len(got)-1]
	if len(got) != MaxSteps || newest.Exit != 255 || newest.Why != "a b" || newest.Seconds != 0 ||
		len(newest.Command) > maxCommand || strings.Contains(string(newest.Phase), "\x1b") {
		t.Errorf("got %d steps, the newest %+v", len(got), newest)
	}
	out := Outcome{Result: SetupFailed, Reason: "npm ci, exit 1", Steps: slices.Repeat([]Step{newest}, MaxSteps)}
	text, err := FormatResult(&out)
	if err != nil || len(text) > MaxResult {
		t.Fatalf("got a result of %d bytes, %v", len(text), err)
	}
	if o, err := ParseResult(text); err != nil || o.Result != SetupFailed || !cmp.Equal(o.Steps, out.Steps) {
		t.Errorf("got %+v, %v", o, err)
	}
}

// The phase is part of an unfinished result only, and one that does not exist is none. The number of heard messages is
// part of every result, and at most that of a session's.
func TestProgress(t *testing.T) {
	doing := Doing{PhaseSetup, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 3}
	text, err := FormatProgress(Usage{OutputTokens: 3}, doing)
	if err != nil {
		t.Fatal(err)
	}
	if u, got, err := ParseProgress(text); err != nil || u.OutputTokens != 3 || got != doing {
		t.Errorf("got %+v, %+v, %v", u, got, err)
	}
	for _, text := range []string{
		`{"usage":{},"doing":{"phase":"lunch"}}`, `{"outcome":"done","doing":{"phase":"setup"}}`,
	} {
		if _, got, err := ParseProgress([]byte(text)); err != nil || got != (Doing{}) {
			t.Errorf("%s: got %+v, %v, want no phase", text, got, err)
		}
	}
	text, err = FormatResult(&Outcome{Result: Done, Heard: 9})
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseResult(text)
	if _, got, err := ParseProgress(text); o.Heard != MostMessages || got != (Doing{Heard: MostMessages}) || err != nil {
		t.Errorf("got %d, %+v, %v, want %d messages", o.Heard, got, err, MostMessages)
	}
	if err != nil {
		t.Error(err)
	}
}
