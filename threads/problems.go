package threads

import "codeberg.org/johba/disinto/agents"

// Problem is something that a valid configuration says and that keeps work from ever being done.
type Problem struct {
	Key    string // the table it is about, such as agents.dev-qwen
	Reason Reason // as held items will show it
}

// String is the problem on one line, with what mends it.
func (p Problem) String() string {
	text := p.Key + ": " + p.Reason.Text()
	for _, doc := range codeDocs {
		if doc.Code == p.Reason.Code && doc.Code != NoToken { // whose text names the variable to set
			text += ": " + doc.Mend
		}
	}
	return text
}

// Problems lists what `disinto check` refuses and `disinto run` lives with, holding the work and saying why. It asks the
// scheduler's own rules, so the two cannot disagree. Agents come first, then roles, each sorted by name.
func (c *Config) Problems() []Problem {
	v := &view{Snapshot: &Snapshot{Config: c}}
	var all []Problem
	for i := range c.Agents {
		cand := candidate{agent: &agentState{Agent: &c.Agents[i]}}
		key := "agents." + c.Agents[i].Name
		if why := hasToken(v, cand); why != nil {
			all = append(all, Problem{key, *why})
		}
		if why := canBeReviewed(v, &traits{kind: agents.KindIssue}, cand); why != nil && v.hasTrigger(&c.Agents[i], agents.OnIssue) {
			all = append(all, Problem{key, *why})
		}
	}
	for i := range c.Roles {
		if why := hasProgram(v, candidate{role: &c.Roles[i]}); why != nil {
			all = append(all, Problem{"roles." + c.Roles[i].Name, *why})
		}
	}
	return all
}
