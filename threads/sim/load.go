package sim

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Work is one issue of a load, with its sessions.
type Work struct {
	At       time.Duration // time of filing since the start
	Repo     string        // empty: the factory's first
	Priority int           // 1 to 10
	Skills   []string      // of its labels
	Pin      string        // the agent that a person assigned it to; empty for none
	// Sessions are the lengths of its writing sessions. If there are several, each is reviewed, and every review except
	// the last requests changes. A single session closes the issue without a pull request.
	Sessions []time.Duration
	Review   time.Duration // length of each review, by an agent, or by a person in a factory without review agents

	// Steps are the writing sessions and Looks the reviews, if more is known than their lengths. Sessions after the last
	// ones are drawn from the trial's model.
	Steps, Looks []Step
	Pulls        bool // with Steps: they lead to a pull request; otherwise the last step closes the issue

	drawn  bool // all of it is drawn from the trial's model
	judged bool // while the load is built: the last writing session was reviewed
}

// Step is a session of an issue.
type Step struct {
	Took    time.Duration
	Result  agents.Result
	Verdict ledger.Verdict // of a review
	Usage   *agents.Usage  // nil: the mean of its thread and kind
	Red     bool           // the checks of its push fail
	Whole   bool           // Took includes the server's time to read the context again
}

// Load is a list of issues in the order of filing.
type Load []Work

// longest bounds every time in a load: a time whose nanoseconds overflow an int64 would be negative.
const longest = 10 * 366 * 24 * time.Hour

func seconds(s float64) time.Duration {
	return time.Duration(min(s, longest.Seconds()) * float64(time.Second))
}

// labelsOf returns an issue's labels, sorted.
func labelsOf(w *Work) []string {
	labels := []string{forge.LabelBacklog, fmt.Sprintf("priority/%d", w.Priority)}
	for _, s := range w.Skills {
		labels = append(labels, forge.SkillPrefix+s)
	}
	slices.Sort(labels)
	return labels
}
