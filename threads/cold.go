package threads

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// WarmShare is the share of the first prompt that should come from a cache when a session continues a conversation.
// Below it, most of the conversation was computed again.
const WarmShare = 0.5

// Resumed describes a session on a local thread that continued the conversation of its chain's last session.
type Resumed struct {
	agents.Resumption
	Last   time.Time      // the end of the last session
	Others []string       // the sessions on the same server since then, such as "dev-qwen #12", in order
	Server *agents.Server // as last read; nil where it is unknown
	// Restarted is when the server was found restarted, and Slept when its model was found unloaded; zero if never.
	Restarted, Slept time.Time
}

// Cold returns why most of the conversation was computed again, as far as that is known; empty when it was not.
func (r *Resumed) Cold() string {
	tokens := r.Cached + r.Computed
	if tokens <= 0 || r.Hit() >= WarmShare {
		return ""
	}
	return fmt.Sprintf("the server had %.0f %% of %d tokens: %s", 100*r.Hit(), tokens, r.cause(tokens))
}

// cause returns the likely cause; the surest comes first.
func (r *Resumed) cause(tokens int64) string {
	var size float64 // of this conversation in the server's memory, in bytes; 0 is unknown
	forgets := false
	if r.Server != nil {
		size, forgets = float64(tokens)*float64(r.Server.PerToken), r.Server.Forgets
	}
	switch all := size * float64(1+len(r.Others)); {
	case r.Restarted.After(r.Last):
		return "it was restarted at " + r.Restarted.UTC().Format(time.RFC3339)
	case r.Slept.After(r.Last):
		return "it had unloaded its model, with all conversations (--sleep-idle-seconds)"
	case r.Changed != "":
		return "the prompt differs from the last session's, first in " + r.Changed
	case forgets:
		return "its model's state cannot be kept token by token"
	case size > defaultRAM:
		return fmt.Sprintf("it takes %.1f GiB, more than the server's memory for conversations has: --cache-ram, 8 GiB by "+
			"default", size/(1<<30))
	case all > defaultRAM:
		return fmt.Sprintf("with %s since then it takes %.1f GiB, more than the server's memory for conversations has: "+
			"--cache-ram, 8 GiB by default", count(len(r.Others), "session"), all/(1<<30))
	case len(r.Others) > 0:
		return "its slot was taken by " + someOf(r.Others) + ", and no memory kept it: --cache-ram"
	case r.Cached > 0:
		return fmt.Sprintf("no other session ran there meanwhile, and the CLI's prompt changed after its first %d tokens",
			r.Cached)
	}
	return "no other session ran there meanwhile: the CLI starts each prompt differently or asks side questions, or the " +
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
