package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Room is what a session gets around its agent in one repository. The zero value is nothing.
type Room struct {
	Setup  Commands `json:"setup,omitzero"`  // before the agent
	Verify Commands `json:"verify,omitzero"` // before a push
	Tries  int      `json:"tries,omitempty"` // messages to the agent about a failed Verify
	// Beat is how often the session says that a command still runs, so that a silent one is no stall.
	Beat time.Duration `json:"beat,omitempty"`
	// Withheld are the names of variables that the commands do not get: the keys of models.
	Withheld []string `json:"withheld,omitempty"`
}

// Empty reports whether the room has nothing in it.
func (r *Room) Empty() bool { return len(r.Setup.Argv)+len(r.Verify.Argv) == 0 }

// Commands run one after the other, without a shell, until one fails.
type Commands struct {
	Argv    [][]string    `json:"argv"`
	Timeout time.Duration `json:"timeout"` // of all of them together
}

// RoomVar is the variable with the session's room as JSON. It is missing where the room is empty.
const RoomVar = "DISINTO_ROOM"

// ParseRoom decodes the value of RoomVar. An empty text is an empty room.
func ParseRoom(text string) (r Room, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("$%s is not the JSON of a room: %w", RoomVar, err)
	}
	return r, nil
}

// room sets RoomVar for a session that writes code. The keys of models are those that agent CLIs know, and all that the
// thread sets or lets pass.
func (e *Env) room(vars map[string]string) {
	delete(vars, RoomVar)
	if e.Room.Empty() || !e.Kind.Writes() || PlansOnly(e.Cause) || !e.Role.BuiltIn() {
		return
	}
	r := e.Room
	r.Beat = min(max(e.Role.Stall/3, time.Millisecond), time.Minute)
	for name := range vars {
		ofThread := func(v Var) bool { return v.Name == name }
		if modelNames.match(name) || matches(e.EnvAllow, name) || slices.ContainsFunc(e.Vars, ofThread) {
			r.Withheld = append(r.Withheld, name)
		}
	}
	slices.Sort(r.Withheld)
	if text, err := json.Marshal(r); err == nil {
		vars[RoomVar] = string(text)
	}
}

// CauseSplit is the cause of a session that plans into which issues one is split.
const CauseSplit = "split"

// PlansOnly reports whether a session with a cause plans an issue, and writes no code.
func PlansOnly(cause string) bool { return cause == "plan" || cause == CauseSplit }

// Phase is a part of a session in which its agent does not work.
type Phase string

// The phases.
const (
	PhaseSetup  Phase = "setup"
	PhaseVerify Phase = "verify"
	PhaseForge  Phase = "forge" // the session waits for a forge that does not answer
)

var phaseVerbs = map[Phase]string{
	PhaseSetup: "setting up", PhaseVerify: "verifying", PhaseForge: "waiting for the forge",
}

// Verb names the phase as something that happens.
func (p Phase) Verb() string { return phaseVerbs[p] }

// Doing is the phase in which a session is, and how many messages of its inbox its agent has heard. Without a phase its
// agent works.
type Doing struct {
	Phase Phase     `json:"phase,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Heard int       `json:"heard,omitempty"`
}

// Known returns what a program reports, without a phase that does not exist, and with a plausible number.
func (d Doing) Known() Doing {
	d.Heard = min(max(d.Heard, 0), MostMessages)
	if phaseVerbs[d.Phase] == "" {
		return Doing{Heard: d.Heard}
	}
	return d
}

// Step is a command that a session ran beside its agent.
type Step struct {
	Phase   Phase   `json:"phase"`
	Command string  `json:"command"` // on one line
	Exit    int     `json:"exit"`    // its exit code; -1 if it has none, for the reason in Why
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
	// Commit is what was verified, and Run counts the runs of the commands from 1; empty and 0 for a setup.
	Commit string `json:"commit,omitempty"`
	Run    int    `json:"run,omitempty"`
}

// Failed reports whether the command failed.
func (s *Step) Failed() bool { return s.Exit != 0 }

// Words describes how a command ended: "npm ci, exit 1".
func (s *Step) Words() string {
	if s.Why != "" {
		return s.Command + ", " + s.Why
	}
	return fmt.Sprintf("%s, exit %d", s.Command, s.Exit)
}

// Verdict is what became of the commands that verify a session's work.
type Verdict string

// The verdicts.
const (
	GreenFirst   Verdict = "green"         // at once
	GreenFlaky   Verdict = "flaky"         // a command failed, and passed when it ran again
	GreenLater   Verdict = "green-later"   // after messages to the agent
	Red          Verdict = "red"           // in the end, and the base commit passes
	VerifyBroken Verdict = "verify-broken" // in the end, as at the base commit
)

// Verified is how a session's work was verified.
type Verified struct {
	Verdict Verdict `json:"verdict"`
	Words   string  `json:"words,omitempty"` // the command that failed last, and how
	Base    string  `json:"base,omitempty"`  // the base commit, if the commands had to run there
}

// Bounded returns the verdict with texts of one line; nil for one that does not exist. A program reports it.
func (v *Verified) Bounded() *Verified {
	if v == nil || !slices.Contains([]Verdict{GreenFirst, GreenFlaky, GreenLater, Red, VerifyBroken}, v.Verdict) {
		return nil
	}
	return &Verified{v.Verdict, shortLine(v.Words), shortLine(v.Base)}
}

// MaxSteps bounds the steps of a session that are kept, and maxCommand a command in bytes: with JSON's escapes they
// stay far below MaxResult.
const (
	MaxSteps   = 40
	maxCommand = 200
)

// BoundedSteps returns the newest steps, with plausible numbers and texts of one line. A program reports them.
func BoundedSteps(steps []Step) []Step {
	steps = slices.Clone(steps[max(0, len(steps)-MaxSteps):])
	for i := range steps {
		s := &steps[i]
		s.Phase = Phase(shortLine(string(s.Phase)))
		s.Command, s.Why, s.Commit = shortLine(s.Command), shortLine(s.Why), shortLine(s.Commit)
		s.Run = min(max(s.Run, 0), 1000)
		s.Exit = min(max(s.Exit, -1), 255)
		if !(s.Seconds >= 0) { // also NaN
			s.Seconds = 0
		}
		s.Seconds = min(s.Seconds, 1e6)
	}
	return steps
}

func shortLine(text string) string {
	if text = oneLine(text); len(text) > maxCommand {
		text = strings.ToValidUTF8(text[:maxCommand-3], "") + "…"
	}
	return text
}
