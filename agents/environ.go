package agents

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SecretVar is a secret of the configuration, with the variable that it was read from and the agent that may see it.
type SecretVar struct {
	Name  string // environment variable; empty for a literal
	Value Secret
	Agent string // its owner; empty means the supervisor, or Thread
	// Thread owns a secret of the variables of a thread; empty for others.
	Thread string
}

// Var is an environment variable that the configuration sets for the agents of a thread.
type Var struct {
	Name  string
	Value Secret // a setting such as a folder, or a secret
}

// SecretVariable reports whether a variable holds a credential, as far as its name and value show.
func SecretVariable(name, value string) bool { return secretNames.match(name) || hasPassword(value) }

// Env holds the facts about one session from which its environment is made, apart from the supervisor's own
// environment.
type Env struct {
	RunID string
	Agent Agent
	Role  Role
	Kind  Kind
	Cause string // why the work is needed, such as "plan", "split" or "failed CI"; empty for an issue to implement
	// Comments are the ids of the comments to which the session responds: a question or plan, and the answers.
	Comments []int64
	Repo     string  // owner/name
	Number   int64   // 0 for scheduled work
	Attempt  int     // from 1
	Tried    []Tried // attempts by agents before it in the escalation list, oldest first

	// Properties of the thread.
	Thread   string
	Backend  Backend
	BaseURL  string // the agent's own has precedence
	Slot     int
	EnvAllow []string
	EnvDeny  []string
	Vars     []Var // of the thread; they have precedence over base

	ForgeURL   string // without a trailing slash
	ForgeAPI   string // URL of the repository in the forge's API, for scripts
	Home       string // the agent's own HOME
	User       string // system account of the session; empty leaves USER and LOGNAME unchanged
	Workspace  string
	ResultPath string
	Left       Budget // what is left of the budget; a zero field means no limit
	Tmp        string // the session's own folder for temporary files; empty leaves TMPDIR unchanged

	TraceParent string // W3C traceparent of the session; empty leaves the variable unchanged

	// MaxUnseen is the size of the largest binary, file in Git LFS or lock file that no reviewer need be shown, in bytes.
	MaxUnseen int64
	// ReadAll lets the program read text that accounts without write access wrote on the forge.
	ReadAll bool

	Egress []string // the hosts that the session may reach, as in Sandbox

	Room Room // of the repository; its Beat and Withheld are filled in

	Secrets []SecretVar // every secret that the configuration names, of all owners
}

// names selects variables by patterns of their upper-case names: those that match a pattern of on and none of off.
type names struct{ on, off []string }

// match ignores case: npm and proxies use lower-case variables.
func (n names) match(name string) bool {
	name = strings.ToUpper(name)
	return matches(n.on, name) && !matches(n.off, name)
}

var (
	// forgeNames match the supervisor's own credentials, whether the configuration uses them or not.
	forgeNames = names{on: []string{
		"FORGE_*TOKEN*", "FORGE_*PASS*", "FORGE_ADMIN_*", "*WEBHOOK_SECRET*", "DISINTO_TOKEN", "OTEL_*HEADERS",
	}}
	// secretNames match names that look like any other credential. The exceptions in off only resemble one: limits in
	// tokens, programs that prompt for a password, the public half of a key.
	secretNames = names{
		on: []string{
			"*TOKEN*", "*SECRET*", "*PASSW*", "*PASS", "*PASSPHRASE*", "*_PWD", "*CREDENTIAL*", "*APIKEY", "*_KEY", "*_KEY_ID",
			"*_PAT", "*_AUTH", "*AUTH_CONFIG*", "*AUTHORIZATION*", "*BEARER*", "*COOKIE*", "*CONNECTION_STRING*",
			"*CONNECTIONSTRING*", "*_DSN",
		},
		off: []string{"*MAX_*TOKENS", "TOKENIZERS_*", "*_ASKPASS", "*BYPASS", "*COMPASS", "*_PUBLIC_KEY"},
	}
	// identityNames lead to somebody's identity: sockets of programs that hold keys or a desktop's session, and files
	// with a sign-in. Their values are paths and no secrets, so nothing redacts them.
	identityNames = names{on: []string{
		"*_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_*_ADDRESS", "XAUTHORITY", "KRB5CCNAME", "KUBECONFIG", "DOCKER_CONFIG",
		"NETRC", "*PASSFILE",
	}}
	// modelNames are the settings and API keys without which agent CLIs cannot work.
	modelNames = names{on: []string{
		"ANTHROPIC_*", "CLAUDE_CODE_*", "OPENAI_*", "CODEX_*", "OPENROUTER_*", "GEMINI_*", "AWS_BEARER_TOKEN_BEDROCK",
	}}
	// proxyNames are addresses that can contain a password. Without them a program has no network.
	proxyNames = names{on: []string{"*_PROXY"}}
	// apiNames are removed for agents on a local backend. A program that finds one of them uses the paid API instead of
	// the local server, and only the bill shows it.
	apiNames = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY"}
)

// Environ returns the complete environment of a session, sorted (section 8 of the design): base, minus
//
//   - secrets of the configuration that belong to others, recognised by the variable's name or by its value, which can
//     contain the secret as a part, such as an address with a token;
//   - the forge's credentials and webhook secrets, recognised by their names;
//   - variables that look like any other credential, by name or because they hold an address or a connection string
//     with a password, except the agent's own secrets, proxy addresses and, on a paid backend, API keys of models;
//   - variables that lead to somebody's identity, such as the socket of an ssh-agent;
//   - on a local backend, the keys of paid APIs;
//   - variables that the thread or the role denies;
//
// plus the variables that the thread sets, and those of the contract, which override base and cannot be denied. A
// variable that the thread or the role allows passes all of these rules except one: no program ever gets another
// agent's or thread's secret.
//
// If base contains a variable twice, the last value counts, as it does for a process.
func Environ(base []string, e *Env) []string {
	vars := make(map[string]string, len(base)+32)
	for _, entry := range base {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			vars[name] = value
		}
	}
	maps.DeleteFunc(vars, func(name, value string) bool { return name == "OLDPWD" || !e.passes(name, value) })
	for _, v := range e.Vars {
		vars[v.Name] = v.Value.Reveal()
	}
	e.contract(vars)
	delete(vars, EgressVar)
	if e.Egress != nil {
		vars[EgressVar] = strings.Join(e.Egress, " ")
	}
	environ := make([]string, 0, len(vars))
	for name, value := range vars {
		environ = append(environ, name+"="+value)
	}
	slices.Sort(environ)
	return environ
}

// Apart splits an environment that Environ returned into variables that every account may read, and secrets: the
// agent's own, variables that look like one, the settings of models' APIs, and variables that pass only because they
// are allowed.
func (e *Env) Apart(environ []string) (open, secrets []string) {
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); e.isSecret(name, value) {
			secrets = append(secrets, entry)
		} else {
			open = append(open, entry)
		}
	}
	return open, secrets
}

// isSecret prefers a false positive: the program gets the variable either way.
func (e *Env) isSecret(name, value string) bool {
	held := func(s SecretVar) bool { return holds(value, s.Value.Reveal()) }
	return value != "" && (slices.ContainsFunc(e.Secrets, held) || holds(value, e.Agent.Token.Reveal()) ||
		forgeNames.match(name) || secretNames.match(name) || modelNames.match(name) || hasPassword(value) ||
		matches(e.EnvAllow, name) || matches(e.Role.EnvAllow, name))
}

// passes reports whether the agent's program gets one of the supervisor's variables.
func (e *Env) passes(name, value string) bool {
	owner, secret := e.secretOf(name, value)
	switch {
	case secret && owner != "":
		return false
	case matches(e.EnvAllow, name), matches(e.Role.EnvAllow, name):
		return true
	case secret,
		forgeNames.match(name),
		identityNames.match(name),
		e.looksSecret(name, value),
		!e.Backend.Paid() && slices.Contains(apiNames, name),
		matches(e.EnvDeny, name), matches(e.Role.EnvDeny, name):
		return false
	}
	return true
}

// looksSecret reports whether a variable seems to hold a credential that the agent does not need.
func (e *Env) looksSecret(name, value string) bool {
	own := func(s SecretVar) bool { return e.has(s) && holds(value, s.Value.Reveal()) }
	switch {
	case slices.ContainsFunc(e.Secrets, own), e.Backend.Paid() && modelNames.match(name):
		return false
	}
	return secretNames.match(name) || hasPassword(value) && !proxyNames.match(name)
}

// connectionSecret matches the secret of a connection string, such as Server=db;User Id=sa;Password=x, host=db
// password=x, AccountName=a;AccountKey=x== and user:x@tcp(db:3306)/shop.
var connectionSecret = regexp.MustCompile(
	`(?i)(?:^|[;&?\s])(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=\s*[^\s;&]` +
		`|^[^\s:@/]+:[^\s@]+@(?:tcp|unix)\(`)

// hasPassword reports whether a text contains an address with a password, such as postgres://user:password@host/, or a
// connection string with one. The password need not be escaped as a URL requires, because programs that read these
// variables often accept it unescaped.
func hasPassword(text string) bool {
	if connectionSecret.MatchString(text) {
		return true
	}
	for {
		_, rest, found := strings.Cut(text, "://")
		if !found {
			return false
		}
		authority := rest
		if end := strings.IndexAny(rest, "/ \t\n,;'\""); end >= 0 {
			authority = rest[:end]
		}
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			if _, password, _ := strings.Cut(authority[:at], ":"); password != "" {
				return true
			}
		}
		text = rest
	}
}

// secretOf reports whether a variable holds a secret that is not the agent's own, and who owns it: an agent, a thread,
// or "" for the supervisor. If several secrets match, an agent's counts before the supervisor's.
func (e *Env) secretOf(name, value string) (owner string, secret bool) {
	for _, s := range e.Secrets {
		if (s.Name == name || holds(value, s.Value.Reveal())) && !e.owns(s) {
			owner, secret = max(owner, s.Agent, s.Thread), true
		}
	}
	return owner, secret
}

// owns reports whether a secret is the agent's own. The configuration may give several agents the same secret.
func (e *Env) owns(s SecretVar) bool {
	return slices.ContainsFunc(e.Secrets, func(o SecretVar) bool {
		return e.has(o) && o.Value == s.Value
	})
}

// has reports whether the configuration gives a secret to the agent or its thread.
func (e *Env) has(s SecretVar) bool {
	return s.Agent == e.Agent.Name && s.Thread == "" || s.Thread != "" && s.Thread == e.Thread
}

// holds reports whether value equals the secret, or contains it. A short secret has to be equal: a match inside a
// longer value may be coincidence.
func holds(value, secret string) bool {
	if len(secret) < minSecret {
		return secret != "" && value == secret
	}
	return strings.Contains(value, secret)
}

// matches reports whether a name matches one of the patterns, which are names or valid globs.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// gitSilence is how many seconds git waits for a byte of an answer; without it, for ever. Preparing the clone of
// a large repository can take minutes, and forges buffer the signs of life that git sends meanwhile.
const gitSilence = "300"

// contract sets the variables on which every agent's program can rely.
func (e *Env) contract(vars map[string]string) {
	email := NoReply(e.Agent.Login, e.ForgeURL)
	maps.Copy(vars, map[string]string{
		"DISINTO_RUN_ID":    e.RunID,
		"DISINTO_AGENT":     e.Agent.Name,
		"DISINTO_ROLE":      e.Role.Name,
		"DISINTO_THREAD":    e.Thread,
		"DISINTO_BACKEND":   string(e.Backend),
		"DISINTO_SLOT":      strconv.Itoa(e.Slot),
		"DISINTO_KIND":      string(e.Kind),
		"DISINTO_CAUSE":     e.Cause,
		"DISINTO_COMMENTS":  ids(e.Comments),
		"DISINTO_REPO":      e.Repo,
		"DISINTO_NUMBER":    strconv.FormatInt(e.Number, 10),
		"DISINTO_ATTEMPT":   strconv.Itoa(e.Attempt),
		"DISINTO_MODEL":     e.Agent.Model,
		"DISINTO_BASE_URL":  cmp.Or(e.Agent.BaseURL, e.BaseURL),
		"DISINTO_WORKSPACE": e.Workspace,
		"DISINTO_RESULT":    e.ResultPath,
		InboxVar:            InboxPath(e.ResultPath),
		"DISINTO_READERS":   readersOf(e.ReadAll),

		"FORGE_URL":   e.ForgeURL,
		"FORGE_REPO":  e.Repo,
		"FORGE_API":   e.ForgeAPI,
		"FORGE_TOKEN": e.Agent.Token.Reveal(),

		"HOME":                     e.Home,
		"PWD":                      e.Workspace, // opencode trusts it more than the kernel, and would work in ours
		"GIT_AUTHOR_NAME":          e.Agent.Name,
		"GIT_AUTHOR_EMAIL":         email,
		"GIT_COMMITTER_NAME":       e.Agent.Name,
		"GIT_COMMITTER_EMAIL":      email,
		"GIT_HTTP_LOW_SPEED_TIME":  cmp.Or(vars["GIT_HTTP_LOW_SPEED_TIME"], gitSilence),
		"GIT_HTTP_LOW_SPEED_LIMIT": cmp.Or(vars["GIT_HTTP_LOW_SPEED_LIMIT"], "1"),
	})
	vars["DISINTO_MAX_UNSEEN"] = strconv.FormatInt(e.MaxUnseen, 10)
	delete(vars, "DISINTO_MAX_TOKENS")
	delete(vars, "DISINTO_MAX_USD")
	if e.Left.Tokens > 0 {
		vars["DISINTO_MAX_TOKENS"] = strconv.FormatInt(e.Left.Tokens, 10)
	}
	if e.Left.USD > 0 {
		vars["DISINTO_MAX_USD"] = strconv.FormatFloat(e.Left.USD, 'f', -1, 64)
	}
	if e.Tmp != "" {
		vars["TMPDIR"] = e.Tmp
	}
	delete(vars, "DISINTO_TRIED")
	if len(e.Tried) > 0 {
		vars["DISINTO_TRIED"] = formatTried(e.Tried)
	}
	if e.TraceParent != "" {
		vars["TRACEPARENT"] = e.TraceParent
	}
	if e.User != "" {
		vars["USER"], vars["LOGNAME"] = e.User, e.User
	}
	e.room(vars)
}

// EgressVar is the variable with the words for the hosts that the session may reach. It is missing where it may reach
// all.
const EgressVar = "DISINTO_EGRESS"

// ReadersAll is the value of $DISINTO_READERS that lets the program read what every account wrote.
const ReadersAll = "all"

func readersOf(all bool) string {
	if all {
		return ReadersAll
	}
	return "collaborators"
}

// ids joins numbers with commas.
func ids(list []int64) string {
	words := make([]string, len(list))
	for i, id := range list {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, ",")
}

// NoReply returns the mail address that hiring sets on an agent's account and that the agent's commits carry, so that
// the forge shows their author. The address receives no mail: its host is that of Forgejo's own no-reply addresses.
func NoReply(login, forgeURL string) string {
	host := "localhost"
	if u, err := url.Parse(forgeURL); err == nil {
		host = cmp.Or(u.Hostname(), host)
	}
	return login + "@noreply." + host
}

// Getenv returns the last value of a variable in an environment, and "" if there is none.
func Getenv(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// Setenv returns environ with the variables of more replacing those of the same name. It leaves no duplicates, because
// programs differ in which of two values they read.
func Setenv(environ, more []string) []string {
	environ = slices.DeleteFunc(slices.Clone(environ), func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(more, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	})
	return append(environ, more...)
}

// ServiceEnviron returns the complete environment of a service's command, sorted: base without the configuration's
// secrets and the forge's credentials. Other variables that look like secrets stay, because a service is the operator's
// own program and may need them, such as a key for downloading a model. own has the service's variables, which win.
func ServiceEnviron(base []string, j *Job, secrets []SecretVar, own []string) []string {
	vars := make(map[string]string, len(base)+8)
	set := func(entries []string) {
		for _, entry := range entries {
			if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
				vars[name] = value
			}
		}
	}
	set(base)
	maps.DeleteFunc(vars, func(name, value string) bool {
		ours := func(s SecretVar) bool { return s.Name == name || holds(value, s.Value.Reveal()) }
		return name == "OLDPWD" || forgeNames.match(name) || slices.ContainsFunc(secrets, ours)
	})
	maps.Copy(vars, map[string]string{
		"DISINTO_RUN_ID": j.RunID, "DISINTO_SERVICE": j.Service, "HOME": j.Home, "PWD": j.Dir,
	})
	if j.User != "" {
		vars["USER"], vars["LOGNAME"] = j.User, j.User
	}
	set(own)
	environ := make([]string, 0, len(vars))
	for name, value := range vars {
		environ = append(environ, name+"="+value)
	}
	slices.Sort(environ)
	return environ
}
