package nomad

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// codes are the exit codes of session-run. They give the class of the outcome even without the document. Shells, Go
// and this program use the missing codes for other purposes.
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
	{23, agents.Unanswered},
	{24, agents.Killed},
	{25, agents.PushRefused},
	{26, agents.TooBig},
	{27, agents.SetupFailed},
	{exitTaken, agents.Lost},
}

// exitTaken is the exit code of a session that the fence refused.
const exitTaken = 75

func codeOf(result agents.Result) int {
	for _, row := range codes {
		if row.result == result {
			return row.code
		}
	}
	return 1
}

// resultOf returns the result of an exit code; empty for a code that session-run does not use.
func resultOf(code int) agents.Result {
	for _, row := range codes {
		if row.code == code {
			return row.result
		}
	}
	return ""
}

// document is the file that session-run updates in the folder of the allocation while it runs.
type document struct {
	Format     int
	Started    *startReport    `json:",omitempty"` // nil until the program has started
	LastOutput time.Time       `json:",omitzero"`
	Usage      agents.Usage    // so far
	Doing      agents.Doing    `json:",omitzero"`
	Outcome    *agents.Outcome `json:",omitempty"` // nil until all processes of the session have ended
}

// startReport describes the start of a session's program.
type startReport struct {
	At      time.Time
	Sandbox string `json:",omitempty"`
}

const (
	documentFile = "session.json"
	// maxDocument is enough for words of 16 KiB and a tail of 4 KiB, which JSON escapes can make six times as long, and
	// for the other fields.
	maxDocument = 256 << 10
)

// parseDocument decodes another machine's document, and bounds each text and number.
func parseDocument(text []byte) (*document, error) {
	d := new(document)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("cannot read the document of the session: %w", err)
	}
	d.Usage, d.Doing = d.Usage.Bounded(), d.Doing.Known()
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
	o.Usage, o.Steps, o.Verified = o.Usage.Bounded(), agents.BoundedSteps(o.Steps), o.Verified.Bounded()
	o.Refused = o.Refused.Bounded()
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

// allocation is Nomad's attempt to run a job on a node. Nomad makes a second one if it loses contact with the first.
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

// statusGone is our own status for an allocation whose job was removed: its node is about to end it.
const statusGone = "gone"

// live reports whether, as far as Nomad knows, a process of the allocation may be running.
func (a *allocation) live() bool {
	return !slices.Contains([]string{"complete", "failed", "lost", statusGone}, a.ClientStatus)
}

// place names the node and the allocation. People read it, and the next session's affinity uses the node.
func (a *allocation) place() string { return oneLine(a.NodeName) + "/" + a.ID[:min(8, len(a.ID))] }

// exit is how the task of an allocation ended, as its node reports it.
type exit struct {
	started bool          // session-run was started
	ended   bool          // session-run ended, as the node reports
	code    int           // exit code of session-run
	signal  int           // signal that killed session-run; 0 for none
	starved bool          // the driver reports out of memory, which raw_exec never does
	result  agents.Result // result of the code; empty if session-run gave none
	words   string        // message of the last event
}

// exit evaluates the events of an allocation.
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
		// What kills a task before its start is why it did not start, such as a template that fails.
		if e.DisplayMessage != "" && (e.Type != "Killing" || !x.started) && e.Type != "Killed" && e.Type != "Not Restarting" {
			x.words = oneLine(e.DisplayMessage)
		}
	}
	if x.started && x.ended && x.signal == 0 {
		x.result = resultOf(x.code)
	}
	return x
}

// silence is how long the executor waits after session-run ended without a result and Nomad had time to kill the
// session. The session's processes end within milliseconds, because each shim loses its supervisor.
const silence = 20 * time.Second

// allEnded reports whether no process of a session runs or can still start. Every allocation must have ended, and each
// session-run that started must have reported its result, or nothing has changed for the time silence. quiet is the
// time since the last change.
func allEnded(allocs []allocation, quiet, silence time.Duration) bool {
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

// mainAllocation returns the allocation in which the session runs: the first one that the fence did not refuse. It is
// nil if there is none.
func mainAllocation(allocs []allocation) (first *allocation) {
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

// judge returns the outcome of a session that ran in an allocation. d is its document, nil if it cannot be read.
// requested reports whether we made Nomad end the job.
func judge(a *allocation, d *document, requested bool, j *agents.Job) agents.Outcome {
	x := a.exit()
	switch {
	case d != nil && d.Outcome != nil && (x.result == "" || d.Outcome.Result == x.result):
		return lostUnlessRequested(*d.Outcome, a, requested)
	case x.result != "":
		o := agents.Outcome{Result: x.result, ExitCode: x.code}
		if o.Result != agents.Done {
			o.Reason = "its own report cannot be read from " + a.place()
		}
		return lostUnlessRequested(o, a, requested)
	case a.ClientStatus == statusGone:
		return agents.Outcome{Result: agents.Lost, Reason: "its job was removed from Nomad"}
	case a.ClientStatus == "lost" || a.live():
		return agents.Outcome{Result: agents.Lost, Reason: "node " + oneLine(a.NodeName) + " is no longer heard from"}
	case !x.started:
		return agents.Outcome{
			Result: agents.NoPlace, Reason: fmt.Sprintf("node %s cannot start it: %s", oneLine(a.NodeName), x.words),
		}
	case requested, a.DesiredStatus == "stop":
		return lostUnlessRequested(agents.Outcome{Result: agents.Cancelled}, a, requested)
	case x.starved:
		return agents.Outcome{
			Result: agents.Failed, ExitCode: -1, Signal: "SIGKILL",
			Reason: "killed by SIGKILL on " + a.place() + ": out of memory, its limit is " + memoryLimit(j),
		}
	case x.signal == 9 || x.code == 137: // a person, the kernel of a full machine or Nomad: the work is not to blame
		return agents.Outcome{
			Result: agents.Killed, ExitCode: -1, Signal: "SIGKILL",
			Reason: "session-run was killed by SIGKILL on " + a.place() + ", and Nomad reports no lack of memory",
		}
	}
	return agents.Outcome{
		Result: agents.Lost, Reason: "session-run ended without a report on " + a.place() + ": " + x.words,
	}
}

// lostUnlessRequested corrects a cancelled session's outcome: if we did not request the end, the session is lost.
func lostUnlessRequested(o agents.Outcome, a *allocation, requested bool) agents.Outcome {
	if o.Result == agents.Cancelled && !requested {
		o.Result, o.Reason = agents.Lost, "it was stopped in Nomad, on "+a.place()
	}
	return o
}
