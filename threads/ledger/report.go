package ledger

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Report is everything known of a session when its program has ended.
type Report struct {
	Run     string
	Item    threads.Item
	Login   string           // of its agent
	Breaker time.Duration    // the thread's breaker_interval
	Outcome agents.Outcome   // from the program and its executor, without secrets
	Ran     bool             // the program could be started
	Stop    threads.Code     // why reconcile or a person ended it; empty when neither did
	Look    *forge.ItemFacts // the forge's answer, if AsksForge
	Gone    bool             // the forge answered that the item no longer exists
	// Rejected says why the forge rejects the agent's token, if a session failed; empty if the forge accepts it.
	Rejected string
	// Off says why no work in the repository was possible for the agent. It is read together with Rejected.
	Off string
}

// AsksForge reports whether the forge must be asked before the session can be judged. A guess would burn an attempt,
// or do the work twice.
func (r *Report) AsksForge() bool {
	mayHaveRun := r.Ran || r.Outcome.Result == agents.Lost
	return mayHaveRun && (r.Stop == threads.StopClosed || threads.AsksForge(r.Item, r.Outcome))
}

// End judges how the session ended.
func (r *Report) End() *End {
	end := &End{Run: r.Run, NeverRan: !r.Ran, Breaker: r.Breaker, Stop: r.Stop}
	out := r.Outcome
	switch {
	case r.Gone:
		out.Result, out.Reason = agents.Cancelled, "gone from the forge"
	case r.Look != nil:
		var effect threads.Effect
		out, effect = threads.Judge(r.Item, r.Login, out, *r.Look, r.Item.HeadSHA)
		end.Remarked = effect == threads.Remarked
		end.NeverRan = end.NeverRan && effect == threads.NoEffect
		end.Verdict = VerdictOf(threads.VerdictOf(r.Item, r.Login, *r.Look))
		if out.Result == agents.Done {
			end.Approved = threads.ApprovalOf(r.Item, r.Login, *r.Look)
		}
	}
	switch {
	case !out.Result.Fails():
	case r.Off != "": // whatever the session did, it could not get it to the forge
		out.Result, out.Reason = agents.Cancelled, r.Off
	case r.Rejected != "":
		out.Result, out.Reason = agents.TokenRejected, r.Rejected
	}
	if out.Result == agents.TooBig {
		end.Unshown = &threads.Unshown{Head: r.Item.HeadSHA, Base: r.Item.Base}
	}
	end.Result, end.Reason, end.Words, end.RetryAt = out.Result, out.Reason, out.Words, out.RetryAt
	end.Session, end.CPU, end.MaxRSS = out.SessionID, out.CPU, out.MaxRSS
	end.Resumed, end.Steps, end.Verified = plausible(out.Resumed), out.Steps, out.Verified
	end.Refused = out.Refused
	if used := out.Usage.Bounded(); used != (agents.Usage{}) {
		end.Usage = &used
	}
	switch {
	case out.Signal != "":
		end.Exit = out.Signal
	case out.ExitCode != 0:
		end.Exit = fmt.Sprint(out.ExitCode)
	}
	if out.Result.Fails() {
		end.Tail = lastLines(out.Tail, tailMax)
		if !out.Claimed {
			end.LastLine = lastLine(end.Tail)
		}
	}
	return end
}

// VerdictOf returns the journal's form of a verdict; empty for one that decides nothing.
func VerdictOf(v forge.Verdict) Verdict {
	switch v {
	case forge.Approved:
		return Approved
	case forge.ChangesRequested:
		return ChangesRequested
	}
	return ""
}

// tailMax bounds the output of a failure that is kept, in bytes: the end of a stack trace.
const tailMax = 4 << 10

// lastLines returns the end of a text in at most limit bytes, from the start of a line if there is one.
func lastLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, whole, found := strings.Cut(text, "\n"); found {
		text = whole
	}
	return strings.ToValidUTF8(text, "")
}

// lineMax bounds a last line in runes, because a table shows it.
const lineMax = 200

// lastLine returns the last line of a text that is not blank. It usually says more than "exit status 22".
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return threads.Clip(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]), lineMax)
}
