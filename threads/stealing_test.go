package threads

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// formatBalance formats a Balance as scripts show it.
func formatBalance(b Balance) string {
	var out strings.Builder
	for _, l := range b.Loads {
		fmt.Fprintf(&out, "load   %s %s, %d pending", l.Agent, l.State, l.Pending)
		if l.Why != nil {
			fmt.Fprintf(&out, ": %s", l.Why.Text())
		}
		out.WriteString("\n")
	}
	for _, m := range b.Moves {
		fmt.Fprintf(&out, "move   %s P%d %s -> %s\n", m.Ref.Short(), m.Priority, m.From, m.To)
	}
	for _, s := range b.Stays {
		fmt.Fprintf(&out, "stay   %s at %s: %s: %s\n", s.Ref.Short(), s.Agent, s.Reason.Code, s.Reason.Text())
	}
	return out.String()
}

// remote adds an agent of another host: HOST/AGENT STATE [idle=-3m] [skills=a,b] [local] [review] [draining] [why=W].
func (w *scriptWorld) remote(f []string) {
	host, name, _ := strings.Cut(f[0], "/")
	r := Remote{
		Host: host, Agent: name, Login: name, Thread: "far", Backend: API, State: LoadState(f[1]),
		Roles: []agents.Role{{Name: "dev", On: agents.OnIssue}},
	}
	for _, word := range f[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "idle":
			r.IdleSince = w.at(value)
		case "skills":
			r.Skills = strings.Split(value, ",")
		case "local":
			r.Backend = Local
		case "draining":
			r.Draining = true
		case "review":
			r.Roles[0] = agents.Role{Name: "review", On: agents.OnReview}
		case "why":
			r.Why = value
		default:
			w.Fatalf("unknown word %q of a remote agent", word)
		}
	}
	w.s.Fleet = append(w.s.Fleet, r)
}
