package nomad

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// codes are the exit codes of session-run: the class of the outcome, which is known also where the document is not.
// Shells, Go and this program use those that are left out for something else.
var codes = []struct {
	code   int
	result agents.Result
}{
	{0, agents.Done},
	{1, agents.Failed},
	{10, agents.Refused},
	{11, agents.Question},
	{12, agents.Planned},
	{13, agents.NoProgress},
	{14, agents.Stalled},
	{15, agents.TimedOut},
	{16, agents.Limited},
	{17, agents.BackendDown},
	{18, agents.NoRoom},
	{19, agents.Looped},
	{20, agents.OverBudget},
	{21, agents.Cancelled},
	{22, agents.NoPlace},
	{exitTaken, agents.Lost},
}

// exitTaken is the exit code of a session that the fence did not let begin.
const exitTaken = 75

func codeOf(result agents.Result) int {
	for _, row := range codes {
		if row.result == result {
			return row.code
		}
	}
	return 1
}

// resultOf is the result of an exit code; empty for one that session-run does not have.
func resultOf(code int) agents.Result {
	for _, row := range codes {
		if row.code == code {
			return row.result
		}
	}
	return ""
}

// document is written by session-run while it runs, into the folder of the allocation.
type document struct {
	Format     int
	Started    *begun          `json:",omitempty"` // nil until the program runs
	LastOutput time.Time       `json:",omitzero"`
	Usage      agents.Usage    // so far
	Outcome    *agents.Outcome `json:",omitempty"` // nil until nothing of the session is left
}

// begun is the start of a session's program.
type begun struct {
	At      time.Time
	Sandbox string `json:",omitempty"`
}

const (
	documentFile = "session.json"
	// maxDocument bounds a document: words of 16 KiB and a tail of 4 KiB, six times longer with escapes, and the rest.
	maxDocument = 256 << 10
)

// parseDocument reads a document of another machine: each text and number is held to its bound.
func parseDocument(text []byte) (*document, error) {
	d := new(document)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("cannot read the document of the session: %w", err)
	}
	d.Usage = d.Usage.Bounded()
	if d.Started != nil {
		d.Started.Sandbox = oneLine(d.Started.Sandbox)
	}
	o := d.Outcome
	if o == nil {
		return d, nil
	}
	if resultOf(codeOf(o.Result)) != o.Result {
		return nil, fmt.Errorf("cannot read the document of the session: it has the result %.20q", o.Result)
	}
	o.Reason, o.Signal = oneLine(o.Reason), oneLine(o.Signal)
	o.Words, o.Tail = agents.ManyLines(o.Words), agents.ManyLines(o.Tail)
	o.Usage = o.Usage.Bounded()
	o.CPU, o.MaxRSS, o.Seen = max(o.CPU, 0), max(o.MaxRSS, 0), o.Seen.Bounded()
	if !agents.ValidDigest(o.Digest) {
		o.Digest = ""
	}
	if !agents.ValidSessionID(o.SessionID) {
		o.SessionID = ""
	}
	if o.Reason == "" && o.Result != agents.Done {
		o.Reason = "the program gave no reason"
	}
	return d, nil
}

// allocation is a try of Nomad to run a job on a node. Nomad makes a second one when it loses sight of the first.
type allocation struct {
	ID, NodeID, NodeName        string
	ClientStatus, DesiredStatus string
	CreateIndex                 uint64
	TaskStates                  map[string]*taskState
}

type taskState struct{ Events []taskEvent }

type taskEvent struct {
	Type, DisplayMessage string
	Details              map[string]string
}

// statusGone is our own word for an allocation whose job was removed: its node is about to end it.
const statusGone = "gone"

// live reports whether a process of the allocation may run as far as Nomad knows.
func (a *allocation) live() bool {
	return !slices.Contains([]string{"complete", "failed", "lost", statusGone}, a.ClientStatus)
}

// place names the allocation for people, and its node for an affinity.
func (a *allocation) place() string { return oneLine(a.NodeName) + "/" + a.ID[:min(8, len(a.ID))] }

// exit is how the task of an allocation ended, as its node says it.
type exit struct {
	started bool          // session-run was started
	ended   bool          // and ended, in the node's words
	code    int           // of session-run
	signal  int           // that killed it; 0 for none
	starved bool          // it was out of memory, by the driver's account, which raw_exec never says
	result  agents.Result // by the code; empty where session-run said none
	words   string        // of the last event
}

// exit reads the events of an allocation.
func (a *allocation) exit() (x exit) {
	state := a.TaskStates[taskName]
	if state == nil {
		return x
	}
	for _, e := range state.Events {
		switch e.Type {
		case "Started":
			x.started = true
		case "Terminated":
			x.ended = true
			x.code, _ = strconv.Atoi(e.Details["exit_code"])
			x.signal, _ = strconv.Atoi(e.Details["signal"])
			x.starved = e.Details["oom_killed"] == "true"
		}
		if e.DisplayMessage != "" && e.Type != "Killing" && e.Type != "Killed" && e.Type != "Not Restarting" {
			x.words = oneLine(e.DisplayMessage)
		}
	}
	if x.started && x.ended && x.signal == 0 {
		x.result = resultOf(x.code)
	}
	return x
}

// silence is how long a session may be without its word although its node says that session-run is gone. What it ran
// ends within milliseconds, because each shim loses its supervisor.
const silence = 20 * time.Second

// over reports whether nothing of a session runs any more, or can: every allocation has ended, and session-run has said
// so itself or been silent for long enough. quiet is how long the allocations have been as they are.
func over(allocs []allocation, quiet, silence time.Duration) bool {
	for i := range allocs {
		a := &allocs[i]
		x := a.exit()
		switch {
		case a.live(), a.ClientStatus == "lost":
			return false
		case x.result == "" && x.started && quiet < silence:
			return false
		}
	}
	return len(allocs) > 0
}

// chief is the allocation that the session runs in: the first that the fence did not refuse. Nil when there is none.
func chief(allocs []allocation) (first *allocation) {
	for i := range allocs {
		a := &allocs[i]
		if x := a.exit(); x.code == exitTaken && x.ended && len(allocs) > 1 {
			continue
		}
		if first == nil || a.CreateIndex < first.CreateIndex {
			first = a
		}
	}
	return first
}

// judge says how a session ended that ran in an allocation. d is its document, nil where it cannot be read; asked says
// that we had Nomad end it.
func judge(a *allocation, d *document, asked bool, j *agents.Job) agents.Outcome {
	x := a.exit()
	switch {
	case d != nil && d.Outcome != nil && (x.result == "" || d.Outcome.Result == x.result):
		return foreseen(*d.Outcome, a, asked)
	case x.result != "":
		o := agents.Outcome{Result: x.result, ExitCode: x.code}
		if o.Result != agents.Done {
			o.Reason = "what it said of itself cannot be read from " + a.place()
		}
		return foreseen(o, a, asked)
	case a.ClientStatus == statusGone:
		return agents.Outcome{Result: agents.Lost, Reason: "its job was removed from Nomad"}
	case a.ClientStatus == "lost" || a.live():
		return agents.Outcome{Result: agents.Lost, Reason: "node " + oneLine(a.NodeName) + " is not heard of any more"}
	case !x.started:
		return agents.Outcome{
			Result: agents.NoPlace, Reason: fmt.Sprintf("node %s cannot start it: %s", oneLine(a.NodeName), x.words),
		}
	case asked, a.DesiredStatus == "stop":
		return foreseen(agents.Outcome{Result: agents.Cancelled}, a, asked)
	case x.signal == 9 || x.code == 137 || x.starved:
		return agents.Outcome{
			Result: agents.Failed, ExitCode: -1, Signal: "SIGKILL",
			Reason: "killed by SIGKILL on " + a.place() + ": out of memory? Its limit is " + memoryLimit(j),
		}
	}
	return agents.Outcome{Result: agents.Lost, Reason: "session-run ended without a word on " + a.place() + ": " + x.words}
}

// foreseen makes an outcome that session-run has told one of the session: an end that we did not ask for is not the
// session's.
func foreseen(o agents.Outcome, a *allocation, asked bool) agents.Outcome {
	if o.Result == agents.Cancelled && !asked {
		o.Result, o.Reason = agents.Lost, "it was stopped in Nomad, on "+a.place()
	}
	return o
}
