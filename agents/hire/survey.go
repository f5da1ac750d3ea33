package hire

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/tomltext"
)

// Survey holds which agents a factory.toml assigns to which threads. It is decoded leniently, because hiring repairs a
// file that is invalid for lack of an agent, such as one with a role that no agent has.
type Survey struct {
	ForgeURL string   // empty if the file leaves it to the environment
	Repos    []string // empty if the file leaves it to the environment
	Threads  []Thread // sorted by name
	agents   map[string]map[string]any
	retiring map[string]retiring // agents that are being retired
	shared   string              // the variable of the supervisor's own token
}

// Thread holds what hiring needs from a [threads.NAME] table.
type Thread struct {
	Name, BaseURL string
	Agents        []string // in the order of the file
}

// ParseSurvey returns the survey of the text of a factory.toml. It fails only if the text is not TOML.
func ParseSurvey(text string) (Survey, error) {
	var file struct {
		Forge   map[string]any
		Threads map[string]any
		Agents  map[string]any
	}
	if _, err := toml.Decode(text, &file); err != nil {
		line, _, problem := tomltext.Mistake(text, err)
		return Survey{}, fmt.Errorf("line %d: %s", line, problem)
	}
	s := Survey{
		agents: map[string]map[string]any{}, retiring: map[string]retiring{},
		Repos: stringsOf(file.Forge["repos"]), shared: "FORGE_TOKEN",
	}
	s.ForgeURL, _ = file.Forge["url"].(string)
	if token, _ := file.Forge["token"].(string); strings.HasPrefix(token, "$") {
		s.shared = token[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(file.Threads)) {
		if table, ok := file.Threads[name].(map[string]any); ok {
			url, _ := table["base_url"].(string)
			s.Threads = append(s.Threads, Thread{name, url, stringsOf(table["agents"])})
		}
	}
	for name, value := range file.Agents {
		if table, ok := value.(map[string]any); ok {
			s.agents[name] = table
		}
	}
	for line := range strings.Lines(text) {
		if l, ok := parseRetiring(line); ok {
			s.retiring[l.Name] = l
		}
	}
	return s, nil
}

// stringsOf returns the strings of a TOML array.
func stringsOf(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// ThreadOf returns the thread of an agent, or "".
func (s Survey) ThreadOf(agent string) string {
	for _, t := range s.Threads {
		if slices.Contains(t.Agents, agent) {
			return t.Name
		}
	}
	return ""
}

// ChooseThread picks the thread of a new agent if the user names none: the thread with the model server's address, else
// the only one. The error lists the threads to choose from.
func (s Survey) ChooseThread(baseURL string) (string, error) {
	names := make([]string, len(s.Threads))
	for i, t := range s.Threads {
		names[i] = t.Name
		if baseURL != "" && strings.TrimRight(t.BaseURL, "/") == strings.TrimRight(baseURL, "/") {
			return t.Name, nil
		}
	}
	switch len(names) {
	case 0:
		return "", fmt.Errorf("the file has no threads: add a [threads.NAME] table first")
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("choose the agent's thread: --thread %s", strings.Join(names, " or --thread "))
}

// Has reports whether an agent is on a thread, has a table, or is being retired.
func (s Survey) Has(agent string) bool { return s.isIn(agent) || s.retiring[agent].Name != "" }

// Agents returns the agents of the file, and those that are being retired.
func (s Survey) Agents() []string {
	list := slices.AppendSeq(slices.Collect(maps.Keys(s.agents)), maps.Keys(s.retiring))
	for i := range s.Threads {
		list = append(list, s.Threads[i].Agents...)
	}
	return list
}

func (s Survey) isIn(agent string) bool { return s.agents[agent] != nil || s.ThreadOf(agent) != "" }

// nameSet is a set of names.
type nameSet map[string]bool

func (n nameSet) sorted() []string { return slices.Sorted(maps.Keys(n)) }

// roles returns the roles of the agents on threads.
func (s Survey) roles() nameSet {
	all := nameSet{}
	for _, t := range s.Threads {
		for _, agent := range t.Agents {
			all[s.Role(agent)] = true
			for _, role := range stringsOf(s.agents[agent]["roles"]) {
				all[role] = true
			}
		}
	}
	return all
}

// text returns a string of an agent's table, or "".
func (s Survey) text(agent, key string) string {
	text, _ := s.agents[agent][key].(string)
	return text
}

// SupervisorVar returns the variable of the supervisor's own token.
func (s Survey) SupervisorVar() string { return s.shared }

// Role returns the first role in an agent's table, else the role that its name begins with, else "".
func (s Survey) Role(agent string) string {
	for _, role := range append([]string{s.text(agent, "role")}, stringsOf(s.agents[agent]["roles"])...) {
		if role != "" {
			return role
		}
	}
	return agents.RoleFromName(agent)
}

// Login returns the account of an agent: its name, unless its table has a forge_user.
func (s Survey) Login(agent string) string { return cmp.Or(s.text(agent, "forge_user"), agent) }

// Logins returns the accounts of all agents that are on a thread.
func (s Survey) Logins() []string {
	var logins []string
	for _, t := range s.Threads {
		for _, agent := range t.Agents {
			logins = append(logins, s.Login(agent))
		}
	}
	return logins
}

// Model returns the model in an agent's table; may be empty.
func (s Survey) Model(agent string) string { return s.text(agent, "model") }

// Skills returns the skills in an agent's table.
func (s Survey) Skills(agent string) []string { return stringsOf(s.agents[agent]["skills"]) }

// TokenVar returns the variable of an agent's token: the one that its table names, else the one that follows from its
// name. The latter also replaces a token in plain text and the supervisor's own variable.
func (s Survey) TokenVar(agent string) string {
	name, ok := strings.CutPrefix(s.text(agent, "token"), "$")
	if ok && name != "" && name != s.shared && name != "FORGE_TOKEN" {
		return name
	}
	return agents.TokenVar(agent)
}
