// Package upstream runs the agents of upstream's disinto, a set of bash scripts, unmodified: dev/dev-agent.sh,
// review/review-pr.sh and their siblings, one item at a time.
//
// ParseProject and Factory are pure: ParseProject reads upstream's projects/*.toml, and Factory converts them into the
// equivalent factory.toml. Program prepares one session, for `disinto upstream`. It depends only on the environment
// contract, provides the surroundings that upstream's entrypoint provided (a clone, credentials for git, a private
// /tmp), and returns the command to start.
package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/forge"
)

// Project is one of upstream's projects/*.toml: a repository, and the agents that have their own model.
type Project struct {
	Path     string
	Name     string // used for clones, worktrees and lock files
	Repo     string // owner/name
	ForgeURL string // may be empty
	Branch   string // the default branch; "main" if the file names none
	OpsRepo  string // owner/name; may be empty
	CI       string // the number of the repository in Woodpecker; "0" means none
	Agents   []Agent
	Threads  []Thread // sorted by name
}

// Thread is a [threads.NAME] table of a project, with the keys of factory.toml.
type Thread struct {
	Name   string
	Agents []string
	Table  map[string]any // the other keys
}

// names reports whether an agent is on the thread.
func (t *Thread) names(agent string) bool { return slices.Contains(t.Agents, agent) }

// baseURL returns the address of the thread's server; empty if its table has none.
func (t *Thread) baseURL() string {
	address, _ := t.Table["base_url"].(string)
	return strings.TrimRight(address, "/")
}

// Agent is an [agents.NAME] table of a project: an agent with its own inference server.
type Agent struct {
	Name    string
	Login   string // forge_user, its account
	BaseURL string
	Model   string
	APIKey  string
	Roles   []string
	Compact int // percent of the context at which Claude Code compacts; 0 means its default
}

// projectName matches names that are valid folder names and parts of file names.
var projectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ParseProject decodes a project's file. It ignores unknown keys, as upstream does. The error has a line for each
// mistake.
func ParseProject(path, text string) (*Project, error) {
	var file struct {
		Name     string         `toml:"name"`
		Repo     string         `toml:"repo"`
		ForgeURL string         `toml:"forge_url"`
		Branch   string         `toml:"primary_branch"`
		OpsRepo  string         `toml:"ops_repo"`
		CI       map[string]any `toml:"ci"`
		Agents   map[string]map[string]any
		Threads  map[string]map[string]any
	}
	if _, err := toml.Decode(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &Project{
		Path: path, Name: file.Name, Repo: file.Repo, ForgeURL: strings.TrimRight(file.ForgeURL, "/"),
		Branch: cmp.Or(file.Branch, "main"), OpsRepo: file.OpsRepo, CI: "0",
	}
	if id, ok := file.CI["woodpecker_repo_id"]; ok {
		p.CI = fmt.Sprint(id)
	}
	var all mistakes
	wrong := func(format string, args ...any) { all.add(path+": "+format, args...) }
	if !projectName.MatchString(p.Name) {
		wrong("name is %q, want letters and digits, with - _ . between them", p.Name)
	}
	if !forge.ValidRepo(p.Repo) {
		wrong(`repo is %q, want "owner/name"`, p.Repo)
	}
	if p.OpsRepo != "" && !forge.ValidRepo(p.OpsRepo) {
		wrong(`ops_repo is %q, want "owner/name"`, p.OpsRepo)
	}
	p.readThreads(file.Threads, wrong)
	p.readAgents(file.Agents, wrong)
	return p, errors.Join(all...)
}

func (p *Project) readThreads(tables map[string]map[string]any, wrong func(format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		t := Thread{Name: name, Table: tables[name]}
		list, _ := t.Table["agents"].([]any)
		for _, agent := range list {
			if s, ok := agent.(string); ok {
				t.Agents = append(t.Agents, s)
			}
		}
		if len(t.Agents) == 0 || len(t.Agents) < len(list) {
			wrong("threads.%s.agents is not a list of names", name)
		}
		delete(t.Table, "agents")
		p.Threads = append(p.Threads, t)
	}
}

func (p *Project) readAgents(tables map[string]map[string]any, wrong func(format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name == "schedule" { // a table of upstream's example that no script reads
			continue
		}
		a := agentOf(name, tables[name])
		threaded := slices.ContainsFunc(p.Threads, func(t Thread) bool { return t.names(name) })
		if a.BaseURL == "" && !threaded {
			wrong("agents.%s.base_url is not set", name)
		}
		if len(a.Roles) == 0 {
			wrong("agents.%s.roles is not set", name)
		}
		p.Agents = append(p.Agents, a)
	}
}

func agentOf(name string, table map[string]any) Agent {
	text := func(key string) string {
		s, _ := table[key].(string)
		return s
	}
	a := Agent{
		Name: name, Login: cmp.Or(text("forge_user"), name), BaseURL: strings.TrimRight(text("base_url"), "/"),
		Model: text("model"), APIKey: text("api_key"),
	}
	if n, ok := table["compact_pct"].(int64); ok {
		a.Compact = int(n)
	}
	// A list, or one string: upstream's generator separates by spaces, its entrypoint by commas.
	switch roles := table["roles"].(type) {
	case string:
		a.Roles = words(roles)
	case []any:
		for _, role := range roles {
			a.Roles = append(a.Roles, words(fmt.Sprint(role))...)
		}
	}
	return a
}

// words splits a list at commas and spaces.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
