package session

import (
	"time"

	"codeberg.org/johba/disinto/agents"
)

// outcome returns how a CLI's run ended. The events decide, not the exit code: claude exits with 0 when it is
// interrupted, and calls a usage limit a success. exit is the error of the run, complaint the end of its stderr. Done
// means that the run is complete, not that it achieved anything.
func outcome(cli string, r *report, exit error, complaint string, now time.Time) agents.Outcome {
	t := r.failure
	if t.What == noFailure && !r.Ended {
		t = unended(exit, complaint)
	}
	out := agents.Outcome{Result: agents.Failed, Reason: cli + ": " + t.Words}
	switch t.What {
	case noFailure:
		return agents.Outcome{Result: agents.Done}
	case limited:
		out.Result, out.RetryAt = agents.Limited, t.Until
		if out.RetryAt.IsZero() && t.After > 0 {
			out.RetryAt = now.Add(t.After)
		}
	case signedOut:
		// The thread cannot work, not the item. BackendDown does not count as an attempt, and status shows the reason.
		out.Result, out.Reason = agents.BackendDown, cli+" is not signed in: "+t.Words
	case down:
		out.Result = agents.BackendDown
	case overflown:
		out.Reason = cli + ": the context window overflowed: " + t.Words
	case refused:
		out.Result = agents.Refused
	case looped:
		out.Result = agents.Looped
	case spent:
		out.Result = agents.OverBudget
	}
	return out
}

// unended explains a run without a last event. Its stderr says more than its exit code.
func unended(exit error, complaint string) failure {
	words := firstWords(lastLine(complaint))
	what := classify(0, complaint)
	switch {
	case exit != nil:
		words = exit.Error() + prefixed(": ", words)
	case words == "":
		words = "it ended without saying how"
	}
	return failure{What: what, Words: words}
}

// used returns the usage of one run. For CLIs that count the whole conversation, it subtracts the usage before the run.
// A run that was ended has reported only the usage of its answers.
func used(r *report, before agents.Usage) agents.Usage {
	if !r.TotalTokens {
		before = agents.Usage{CostUSD: before.CostUSD}
	}
	if !r.TotalCost {
		before.CostUSD = 0
	}
	return r.Usage.Bounded().Less(before.Bounded()).Max(r.Running)
}
