package decisions

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/delta"
)

// Why explains the decision at a time on an issue, a pull request, an agent or a thread, by the rules of this
// program. A time in whole seconds means the whole second: if an item was started in it, Why explains that decision,
// otherwise the last one. runs reports whether a supervisor runs, so that its last decision is still in force.
func Why(stateDir, said string, at time.Time, runs bool) (threads.Explanation, error) {
	to := at
	if at.Nanosecond() == 0 {
		to = at.Add(time.Second - 1)
	}
	var ex threads.Explanation
	var bad error
	begun := false
	err := between(stateDir, at, to, runs, func(d *decided) {
		if begun {
			return
		}
		item, _ := d.Config.Item("", said)
		begun = slices.Contains(d.Starts, item)
		ex, bad = d.explain(said)
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return ex, fmt.Errorf("cannot explain %s at %s: %w", said, at.Format(time.RFC3339), err)
	}
	return ex, nil
}

// explain explains one decision.
func (d *decided) explain(said string) (threads.Explanation, error) {
	ex, err := d.about(said)
	if err != nil {
		return ex, err
	}
	plan := threads.Decide(d.Snapshot)
	threads.Enforce(&d.Snapshot, &plan)
	ex.Decided = &threads.Decided{At: d.Now, By: d.Program, Otherwise: delta.Sum(&plan) != d.Sum}
	return ex, nil
}

func (d *decided) about(said string) (threads.Explanation, error) {
	if d.Config.Agent(said) != nil || d.Config.Thread(said) != nil {
		return threads.ExplainName(d.Snapshot, said)
	}
	item, err := d.Config.Item("", said)
	if errors.Is(err, threads.ErrOtherRepo) {
		return threads.Explanation{}, err
	}
	if err != nil {
		return threads.Explanation{}, errors.New("it was neither an agent nor a thread, and is no issue such as 12 or " +
			"owner/name#12")
	}
	if d.Facts.Issue(item) == nil && d.Facts.Pull(item) == nil {
		return threads.Explanation{}, errors.New("no open issue or pull request with that number was known yet")
	}
	return threads.Explain(d.Snapshot, item)
}
