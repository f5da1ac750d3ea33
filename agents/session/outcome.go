package session

import (
	"regexp"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// outcome returns how a CLI's run ended. The events decide, not the exit code: claude exits with 0 when it is
// interrupted, and calls a usage limit a success. heard says that the model answered in this session. exit is the error
// of the run, complaint the end of its stderr. Done means that the run is complete, not that it achieved anything.
func outcome(cli string, r *report, heard bool, exit error, complaint string, now time.Time) agents.Outcome {
	t := r.failure
	if t.What == noFailure && !r.Ended {
		t = unended(r, exit, complaint)
	}
	words := strings.TrimPrefix(strings.TrimPrefix(t.Words, "cannot run "), cli+": ") // of an error that names the program
	out := agents.Outcome{Result: agents.Failed, Reason: cli + ": " + words}
	switch t.What {
	case noFailure:
		if heard {
			return agents.Outcome{Result: agents.Done}
		}
		out.Result, out.Reason = agents.Unanswered, cli+" ended without an answer from the model"
	case limited:
		if out.Result, out.RetryAt = agents.Limited, t.Until; out.RetryAt.IsZero() {
			out.RetryAt = resetTime(t.Words, now)
		}
		if out.RetryAt.IsZero() && t.After > 0 { // of a CLI that would only try again
			out.RetryAt = now.Add(t.After)
		}
	case signedOut:
		out.Result, out.Reason = agents.Unanswered, cli+" is not signed in: "+t.Words
	case unusable:
		out.Result = agents.Unanswered
	case killed:
		out.Result = agents.Killed
	case down:
		out.Result = agents.BackendDown
	case overflown: // this prompt does not fit: the item is at fault, although the model never answered
		out.Reason = cli + ": the context window overflowed: " + t.Words
	case refused:
		out.Result = agents.Refused
	case looped:
		out.Result = agents.Looped
	case spent:
		out.Result = agents.OverBudget
	case broken, forgotten:
		if !heard {
			out.Result = agents.Unanswered
		}
	}
	return out
}

// unended explains a run without a last event, with the last words of its stdout or else its stderr, which say more
// than its exit code.
func unended(r *report, exit error, complaint string) failure {
	words, what := unwrapped(r.Said), classify(0, r.Said)
	if what == broken {
		what = classify(0, complaint)
		if words == "" || what != broken {
			words = LastWords(complaint)
		}
	}
	words = firstWords(words)
	switch {
	case exit != nil:
		words = exit.Error() + prefixed(": ", words)
	case words == "":
		words = "it ended without saying how"
	}
	return failure{What: what, Words: words}
}

// Lines of stderr: notices, and the inner lines of a stack trace, explain nothing; others name an error.
var (
	noticeLine = regexp.MustCompile(`^(Reading additional input|WARNING|Warning|\[claude-code:|at |Node\.js v|[^\pL]*$)`)
	errorLine  = regexp.MustCompile(`^(?i)(\w*error|fatal|panic)\b`)
)

// LastWords returns the last line of a text that names an error, or else the last one that is no notice.
func LastWords(text string) (words string) {
	named := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		names := errorLine.MatchString(line)
		if noticeLine.MatchString(line) || named && !names {
			continue
		}
		words, named = line, names
	}
	return words
}

// totals returns the usage of the conversation after a run, which the next run's totals contain. A run that was ended
// has reported none.
func totals(r *report, before agents.Usage) agents.Usage {
	if (r.TotalTokens || r.TotalCost) && r.Usage != (agents.Usage{}) {
		return r.Usage
	}
	return before.Add(r.Running)
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
