package agents

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// SecretVar is a secret that the configuration names: the variable it was read from and who may see it.
type SecretVar struct {
	Name  string // environment variable, empty for a literal
	Value Secret
	Agent string // whose it is; empty means the supervisor's own
}

// Env is what the environment of one session is made from, beside the supervisor's own.
type Env struct {
	RunID   string
	Agent   Agent
	Role    Role
	Kind    Kind
	Repo    string // owner/name
	Number  int64  // 0 for scheduled work
	Attempt int    // counted from 1

	// Of the thread.
	Thread   string
	Backend  string // anthropic or local
	BaseURL  string // the agent's own wins
	Slot     int
	EnvAllow []string
	EnvDeny  []string

	ForgeURL   string // without a slash at its end
	ForgeAPI   string // the repository's part of the forge's API, for scripts
	Home       string // the agent's own HOME
	User       string // system account it runs as; empty leaves USER and LOGNAME as they are
	Workspace  string
	ResultPath string

	// Secrets are all that the configuration names, whoever they belong to.
	Secrets []SecretVar
}

var (
	// secretNames are the supervisor's credentials by their names: which of them the configuration uses does not matter.
	secretNames = []string{"FORGE_*TOKEN*", "FORGE_*PASS*", "FORGE_ADMIN_*", "*WEBHOOK_SECRET*"}
	// apiNames are kept from agents on a local backend. A program that finds one of them talks to the paid API instead of
	// the local server, and nobody notices before the bill.
	apiNames = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY"}
)

// backendLocal is what threads.Local says.
const backendLocal = "local"

// Environ is the complete environment of a session, sorted (section 8 of the design). It is the whole of base, minus
//
//   - secrets of the configuration that are not this agent's own, whether the variable is named in the configuration or
//     only has the value, or has it inside (an address with a token in it);
//   - the forge's credentials and webhook secrets by their names;
//   - on a local backend, the keys of paid APIs;
//   - what the thread or the role denies;
//
// plus the variables of the contract, which win over base and cannot be denied. What the thread or the role allows is
// kept against all of these rules but one: no program ever gets the secret of another agent.
//
// Of a variable that base has twice the last counts, as it does for a process.
func Environ(base []string, e *Env) []string {
	vars := make(map[string]string, len(base)+32)
	for _, entry := range base {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			vars[name] = value
		}
	}
	for name, value := range vars {
		if !e.passes(name, value) || name == "OLDPWD" {
			delete(vars, name)
		}
	}
	e.contract(vars)
	environ := make([]string, 0, len(vars))
	for name, value := range vars {
		environ = append(environ, name+"="+value)
	}
	slices.Sort(environ)
	return environ
}

// passes reports whether the agent's program gets a variable of the supervisor's.
func (e *Env) passes(name, value string) bool {
	owner, secret := e.secretOf(name, value)
	switch {
	case secret && owner != "":
		return false
	case matches(e.EnvAllow, name), matches(e.Role.EnvAllow, name):
		return true
	case secret,
		matches(secretNames, name),
		e.Backend == backendLocal && slices.Contains(apiNames, name),
		matches(e.EnvDeny, name), matches(e.Role.EnvDeny, name):
		return false
	}
	return true
}

// secretOf reports whether a variable holds a secret that is not the agent's own, and the agent whose it is: empty for
// the supervisor's. Where several fit an agent's counts before the supervisor's.
func (e *Env) secretOf(name, value string) (owner string, secret bool) {
	for _, s := range e.Secrets {
		if (s.Name == name || holds(value, s.Value.Reveal())) && !e.owns(s) {
			owner, secret = max(owner, s.Agent), true
		}
	}
	return owner, secret
}

// owns reports whether a secret is the agent's own, if only because the configuration gives it to another one too.
func (e *Env) owns(s SecretVar) bool {
	return slices.ContainsFunc(e.Secrets, func(o SecretVar) bool {
		return o.Agent == e.Agent.Name && o.Value == s.Value
	})
}

// holds reports whether value is the secret or, from the length on at which that is no accident, has it inside.
func holds(value, secret string) bool {
	if len(secret) < minSecret {
		return secret != "" && value == secret
	}
	return strings.Contains(value, secret)
}

// matches reports whether a name is one of the patterns, which are names or globs. A malformed one matches nothing; the
// configuration has none.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// contract sets the variables that every agent's program can rely on.
func (e *Env) contract(vars map[string]string) {
	baseURL := e.Agent.BaseURL
	if baseURL == "" {
		baseURL = e.BaseURL
	}
	email := NoReply(e.Agent.Login, e.ForgeURL)
	maps.Copy(vars, map[string]string{
		"DISINTO_RUN_ID":    e.RunID,
		"DISINTO_AGENT":     e.Agent.Name,
		"DISINTO_ROLE":      e.Role.Name,
		"DISINTO_THREAD":    e.Thread,
		"DISINTO_BACKEND":   e.Backend,
		"DISINTO_SLOT":      strconv.Itoa(e.Slot),
		"DISINTO_KIND":      string(e.Kind),
		"DISINTO_REPO":      e.Repo,
		"DISINTO_NUMBER":    strconv.FormatInt(e.Number, 10),
		"DISINTO_ATTEMPT":   strconv.Itoa(e.Attempt),
		"DISINTO_MODEL":     e.Agent.Model,
		"DISINTO_BASE_URL":  baseURL,
		"DISINTO_WORKSPACE": e.Workspace,
		"DISINTO_RESULT":    e.ResultPath,

		"FORGE_URL":   e.ForgeURL,
		"FORGE_REPO":  e.Repo,
		"FORGE_API":   e.ForgeAPI,
		"FORGE_TOKEN": e.Agent.Token.Reveal(),

		"HOME":                e.Home,
		"PWD":                 e.Workspace, // programs that believe it more than the kernel would work where we were started
		"GIT_AUTHOR_NAME":     e.Agent.Name,
		"GIT_AUTHOR_EMAIL":    email,
		"GIT_COMMITTER_NAME":  e.Agent.Name,
		"GIT_COMMITTER_EMAIL": email,
	})
	if e.User != "" {
		vars["USER"], vars["LOGNAME"] = e.User, e.User
	}
}

// NoReply is the mail address of an account that gets no mail. Commits are signed with it, and the account has it, so
// that the forge shows whose they are.
func NoReply(login, forgeURL string) string { return login + "@" + noReplyHost(forgeURL) }

// noReplyHost is the host of Forgejo's own no-reply addresses, by which it knows whose a commit is.
func noReplyHost(forgeURL string) string {
	u, err := url.Parse(forgeURL)
	if err != nil || u.Hostname() == "" {
		return "noreply.localhost"
	}
	return "noreply." + u.Hostname()
}
