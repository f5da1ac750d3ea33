package session

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// outcome says how a CLI's run ended, from its events first. Its exit code alone decides nothing: claude exits with 0
// when it is interrupted, and calls a usage limit a success. exit is the error of the run, complaint the end of its
// stderr. Done means that the run is complete, not that it achieved anything.
func outcome(cli string, r *report, exit error, complaint string, now time.Time) agents.Outcome {
	t := r.Trouble
	if t.What == noTrouble && !r.Ended {
		t = unended(exit, complaint)
	}
	out := agents.Outcome{Result: agents.Failed, Reason: cli + ": " + t.Words}
	switch t.What {
	case noTrouble:
		return agents.Outcome{Result: agents.Done}
	case limited:
		out.Result, out.RetryAt = agents.Limited, t.Until
		if out.RetryAt.IsZero() && t.After > 0 {
			out.RetryAt = now.Add(t.After)
		}
	case signedOut:
		// No attempt of any issue: it is the thread that cannot work, and status shows why.
		out.Result, out.Reason = agents.BackendDown, cli+" is not signed in: "+t.Words
	case down:
		out.Result = agents.BackendDown
	case overflown:
		out.Reason = cli + ": the context window overflowed: " + t.Words
	case refused:
		out.Result = agents.Refused
	}
	return out
}

// unended explains a run that did not come to its end: what it complained about says more than how it exited.
func unended(exit error, complaint string) Trouble {
	words := firstWords(lastLine(complaint))
	switch {
	case exit != nil && words != "":
		return Trouble{What: classify(0, complaint), Words: fmt.Sprintf("%v: %s", exit, words)}
	case exit != nil:
		return Trouble{What: classify(0, ""), Words: exit.Error()}
	case words != "":
		return Trouble{What: classify(0, complaint), Words: words}
	}
	return Trouble{What: broken, Words: "it ended without saying how"}
}

// used is what one run used: where a CLI counts the whole conversation, the difference to what it had used before.
func used(r *report, before agents.Usage) agents.Usage {
	u := r.Usage
	for _, n := range []*int64{&u.InputTokens, &u.CachedTokens, &u.OutputTokens} {
		*n = max(0, *n)
	}
	u.CostUSD = max(0, u.CostUSD)
	if r.TotalTokens {
		u.InputTokens = max(0, u.InputTokens-before.InputTokens)
		u.CachedTokens = max(0, u.CachedTokens-before.CachedTokens)
		u.OutputTokens = max(0, u.OutputTokens-before.OutputTokens)
	}
	if r.TotalCost {
		u.CostUSD = max(0, u.CostUSD-before.CostUSD)
	}
	return u
}

func sum(a, b agents.Usage) agents.Usage {
	return agents.Usage{
		InputTokens: a.InputTokens + b.InputTokens, CachedTokens: a.CachedTokens + b.CachedTokens,
		OutputTokens: a.OutputTokens + b.OutputTokens, CostUSD: a.CostUSD + b.CostUSD,
	}
}
