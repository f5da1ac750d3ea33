package threads

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// WarmShare is the part of the first prompt that a cache should have of a session that goes on with a conversation:
// below it, most of the conversation was computed again.
const WarmShare = 0.5

// Resumed is all that is known of a session on a local thread that went on where the last one on its chain ended.
type Resumed struct {
	agents.Resumption
	Last   time.Time      // the end of that session
	Others []string       // the sessions that ran on the same server meanwhile, such as "dev-qwen #12", in their order
	Server *agents.Server // as it was looked at last; nil where it does not say
	// Restarted and Slept are when the server was found started anew, and with its model unloaded; zero if it never was.
	Restarted, Slept time.Time
}

// Cold says why most of the conversation was computed again, as far as that can be known; empty when it was not.
func (r *Resumed) Cold() string {
	tokens := r.Cached + r.Computed
	if tokens <= 0 || r.Hit() >= WarmShare {
		return ""
	}
	return fmt.Sprintf("the server had %.0f %% of %d tokens: %s", 100*r.Hit(), tokens, r.cause(tokens))
}

// cause names the likely cause, the surest first.
func (r *Resumed) cause(tokens int64) string {
	var size float64 // of this conversation in the server's memory, in bytes; 0 is unknown
	forgets := false
	if r.Server != nil {
		size, forgets = float64(tokens)*float64(r.Server.PerToken), r.Server.Forgets
	}
	switch all := size * float64(1+len(r.Others)); {
	case r.Restarted.After(r.Last):
		return "it was started anew at " + r.Restarted.UTC().Format(time.RFC3339)
	case r.Slept.After(r.Last):
		return "it had unloaded its model, with all conversations (--sleep-idle-seconds)"
	case r.Changed != "":
		return "the prompt is not that of the last session from " + r.Changed
	case forgets:
		return "its model's state cannot be kept token by token"
	case size > defaultRAM:
		return fmt.Sprintf("it takes %.1f GiB, and memory keeps no conversation over --cache-ram, 8 GiB unless it is told "+
			"otherwise", size/(1<<30))
	case all > defaultRAM:
		return fmt.Sprintf("with %s since then it takes %.1f GiB, more than the 8 GiB of memory that it has unless it is "+
			"told otherwise: --cache-ram", count(len(r.Others), "session"), all/(1<<30))
	case len(r.Others) > 0:
		return "its slot was taken by " + someOf(r.Others) + ", and no memory kept it: --cache-ram"
	case r.Cached > 0:
		return fmt.Sprintf("no session ran there meanwhile, and what the CLI sends behind its first %d tokens has changed",
			r.Cached)
	}
	return "no session ran there meanwhile: the CLI begins its prompt anew each time or asks side questions, or the " +
		"model's state cannot be kept"
}

// someOf names the first of a list.
func someOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
