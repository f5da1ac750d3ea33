package threads

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Config is one decoded factory.toml: complete, with every default filled in and every contradiction refused.
// It never changes after decoding; a reload makes a new one.
type Config struct {
	Name     string // the file it came from, for messages
	Forge    Forge
	Factory  Factory
	Threads  []Thread       // sorted by name
	Agents   []agents.Agent // sorted by name; each is assigned to a thread
	Roles    []agents.Role  // sorted by name; exactly those that agents have
	Routes   []Route        // sorted by skill
	Stealing bool           // idle agents take issues that are pinned to busy ones
	Fleet    Fleet
	Nomad    Nomad
	Notify   Notify
	Services []Service // sorted by name
	Repos    []Repo    // sorted by name; those of Forge.Repos that have a table
	// Secrets are the variables that the file names as $NAME, with their values. They serve to keep these values away
	// from programs and out of logs, never to print them.
	Secrets []agents.SecretVar
	// Newer are variables of the supervisor's environment for which the secrets file has another value. Programs get that
	// one, because a file can be changed while the supervisor runs. Sorted by name.
	Newer   []agents.Var
	Removed []RemovedKey // sorted by line
}

// RemovedKey is a key of an older version that the file still has. It has no effect.
type RemovedKey struct {
	Line   int
	Key    string // dotted, as TOML writes it
	Advice string // why the key is gone, and what to do
}

// Forge is the [forge] table.
type Forge struct {
	URL             string
	Token           agents.Secret
	Repos           []string // owner/name, sorted
	Bases           []string // branches beside the default one that our pull requests may go to, sorted
	Bots            []string // logins of other hosts' agents, sorted
	ReadersAll      bool     // readers = "all": text of accounts without write access enters prompts too
	MergeAuto       bool     // merge = "auto"
	ClaimSingle     bool     // claim = "single": no other supervisor works in the repositories
	AnswersAuthor   bool     // answers = "author": the author of an issue may answer questions about it, too
	RequireMerged   bool     // a blocker counts as closed only when its pull request was merged
	MaxUnreviewed   int      // per repository: at this many waiting pull requests new issues hold
	MergeOnRed      bool     // merge although the branch's newest commit has failing checks
	MaxUnseen       int64    // bytes of a binary, file in Git LFS or lock file that no reviewer need be shown
	MaxReviewRounds int      // requests for changes and conflicts of one pull request before needs-human
	MaxCIFixes      int      // sessions spent on red CI of one pull request before needs-human
	MaxReviewsHour  int      // reviews an hour of the pull requests of one person
	MaxSessionsDay  int      // sessions a day on what one agent or stranger opened
	WebhookSecret   agents.Secret
}

// Factory is the [factory] table.
type Factory struct {
	State     string // state directory; empty means the command line's or the built-in default
	User      string // system account of the agents; empty means the supervisor's own
	StopGrace time.Duration

	// With less than this many bytes free nothing new starts; 0 means no limit.
	MinFreeMemory, MinFreeDisk int64

	MaxLog int64 // bytes of a session's log; 0 means no limit

	Keep           time.Duration // logs and results of sessions are deleted when they are older than this
	KeepWorkspaces time.Duration // workspaces are deleted this long after their item was closed

	Listen      string        // host:port of the control API over TCP; empty: only the unix socket
	ListenToken agents.Secret // every request over TCP must carry it; set whenever Listen is
	ListenHosts []string      // other host names that requests may use, in lower case, sorted
	ListenHooks string        // host:port for the forge's web hooks; empty: none
	HooksURL    string        // ListenHooks as the forge calls it, with its path; empty: see HookURL
	ListenWeb   string        // host:port of the control room; empty: none
	WebURL      string        // the control room as browsers call it, without a path; empty: see WebAddress
	WebClientID string        // ID of the control room as an OAuth2 application of the forge; empty: it is none
	// ListenMetrics is host:port for GET /metrics without a token; empty: none.
	ListenMetrics string
}

// HookURL returns the address to which the forge should send its web hooks. It is empty without listen_hooks, and
// when listen_hooks covers every interface, because it is not known which of them the forge reaches.
func (f *Factory) HookURL() string {
	if f.HooksURL != "" {
		return f.HooksURL
	}
	if !hasHost(f.ListenHooks) {
		return ""
	}
	return "http://" + f.ListenHooks + "/v1/hook"
}

// hasHost reports whether host:port names an interface, and not all of them.
func hasHost(listen string) bool {
	u, err := url.Parse("tcp://" + listen)
	return err == nil && !slices.Contains([]string{"", "0.0.0.0", "::"}, u.Hostname())
}

// WebAddress returns the address of the control room for browsers, such as http://127.0.0.1:7080. It is empty without
// web_url if listen_web has no host.
func (f *Factory) WebAddress() string {
	if f.ListenWeb == "" || f.WebURL != "" {
		return f.WebURL
	}
	if !hasHost(f.ListenWeb) {
		return ""
	}
	return "http://" + f.ListenWeb
}

// Backend is the kind of inference behind a thread; see agents.Backend.
type Backend = agents.Backend

// The backends.
const (
	API   = agents.API
	Local = agents.Local
)

// Thread is an inference source with its own concurrency rule: a [threads.NAME] table.
type Thread struct {
	Name string
	// RenamedFrom is the name that it had before, under which its pause, usage and history are remembered; or empty.
	RenamedFrom string
	Backend     Backend
	BaseURL     string
	// Slots is max_concurrent: inference slots, numbered from 0.
	Slots int
	// Overlap lets agents share the slots at the same time. False means sticky: a slot holds one agent from the start to
	// the end of its session.
	Overlap bool
	// MaxSessions bounds the sessions of an overlap thread; it equals Slots on a sticky one.
	MaxSessions     int
	Interval        time.Duration // between polls while there is work
	IdleInterval    time.Duration // between polls while there is none
	BreakerInterval time.Duration // between probes of a backend that is down
	Budget          agents.Budget // of all its agents together
	Windows         []Window      // of its subscription, the shortest first
	// Reserve is the share of each window with which no new issue is started, from 0 to less than 1.
	Reserve  float64
	Fallback bool // while the thread is parked or used up, pinned and rework items go up their agent's ladder
	// FallbackTo names threads, in order. After the ladder, that work goes to their agents of the same role.
	FallbackTo []string
	Agents     []string // names, sorted
	EnvAllow   []string
	EnvDeny    []string
	Vars       []agents.Var // that its agents get, sorted by name
	// Executor is where its sessions run: ExecutorNomad, or empty for this machine.
	Executor string
	// StopEnds ends its sessions when the supervisor stops, even where they could continue without it.
	StopEnds bool
	Nodes    []agents.NodeRule // for the machines that may run its sessions, sorted by attribute
	Target   agents.Target     // the part of the cluster that runs its sessions
	// Hold is the time that a sticky thread needs to read a session's context again. A free slot is kept for its
	// resident for that long at most, and only while that pays: see Returns. Zero keeps none.
	Hold time.Duration
	// Cache says where conversations stay warm on a sticky thread. Empty: as observed on the server; see
	// Snapshot.Caches.
	Cache Cache
	Saved Saved // the folder for waiting conversations; the zero value saves none
}

// Cache is the place where a local server keeps conversations.
type Cache string

// The places.
const (
	CacheSlot   Cache = "slot"   // each slot keeps its last conversation
	CacheServer Cache = "server" // the server's memory keeps the last ones, for every slot
)

// Saved says where a thread's waiting conversations are saved.
type Saved struct {
	Limit  int64  // of the folder, in bytes; 0 saves none
	Folder string // the server's --slot-save-path, as this machine sees it; absolute
}

// ExecutorNomad runs the sessions of a thread as jobs of a Nomad cluster.
const ExecutorNomad = "nomad"

// Nomad is the [nomad] table.
type Nomad struct {
	Address     string
	Token       agents.Secret // empty where the cluster has no ACLs
	Namespace   string
	Region      string   // empty: that of the server
	Datacenters []string // in which sessions may run, sorted; "*" is any
	Volume      string   // host volume for workspaces; empty: each session clones
	Program     string   // path of disinto on the nodes

	// Absolute paths of PEM files. CACert is the authority that signed the cluster's certificates; empty: those that the
	// system trusts. ClientCert and ClientKey are for the cluster's mutual TLS; empty: none.
	CACert, ClientCert, ClientKey string
}

// Repo is the [repos."OWNER/NAME"] table of a repository.
type Repo struct {
	Name  string
	Setup agents.Commands // before each session that writes code; no commands: none
	// Verify must pass before a push; no commands: none. VerifyTries are the messages to the agent until then.
	Verify      agents.Commands
	VerifyTries int
	// Egress lists hosts that its sessions may reach beside those of their roles, and SetupEgress more during Setup; a
	// nil Egress adds none, and restricts nothing.
	Egress, SetupEgress []string

	Priority    int           // of issues without a label for it
	MaxSessions int           // at a time; 0: no limit of its own
	Budget      agents.Budget // of all sessions in it
	// Agents write and do scheduled work in it, and Reviewers review there; sorted. nil: every agent with such a role.
	Agents, Reviewers []string
	Prompts           string // folder with its own prompts; empty: those of the factory
}

// Priority returns the priority of an issue with these labels in a repository.
func (c *Config) Priority(repo string, labels []string) int {
	if r := c.RepoTable(repo); r != nil {
		return forge.PriorityOr(labels, r.Priority)
	}
	return forge.Priority(labels)
}

// WorksIn reports whether an agent may do a kind of work in a repository, if it has a role for it.
func (c *Config) WorksIn(repo, agent string, kind agents.Kind) bool {
	r := c.RepoTable(repo)
	if r == nil {
		return true
	}
	list := r.Agents
	if kind == agents.KindReview {
		list = r.Reviewers
	}
	return list == nil || slices.Contains(list, agent)
}

// Room returns what sessions in a repository get around their agents.
func (c *Config) Room(repo string) agents.Room {
	if r := c.RepoTable(repo); r != nil {
		return agents.Room{Setup: r.Setup, Verify: r.Verify, Tries: r.VerifyTries}
	}
	return agents.Room{}
}

// RepoTable finds the table of a repository; nil when there is none.
func (c *Config) RepoTable(name string) *Repo {
	return find(c.Repos, func(r *Repo) bool { return r.Name == name })
}

// Fleet is the [fleet] table. The zero value is a host that reads no other host; every host publishes its own status.
type Fleet struct {
	Hub   bool   // this host reads the others, and moves issues between them
	Hosts []Host // the others, sorted by name; at least one with Hub, none without
}

// Host is another host's supervisor: a [[fleet.hosts]] table.
type Host struct {
	Name string
	// User and Address are arguments of ssh. They consist of letters, digits, dots, dashes, underscores and, in an IPv6
	// address, colons. They do not start with a dash, so that ssh and a shell cannot take them for anything else.
	User    string // empty: as in ssh's configuration
	Address string // or a Host of ssh's configuration; an IPv6 address has no brackets
	Port    int    // 0: as in ssh's configuration
}

// Destination returns the ssh argument that names the host.
func (h Host) Destination() string {
	if h.User == "" {
		return h.Address
	}
	return h.User + "@" + h.Address
}

// String returns the host as factory.toml writes it.
func (h Host) String() string {
	if strings.Contains(h.Address, ":") {
		h.Address = "[" + h.Address + "]"
	}
	s := h.Destination()
	if h.Port > 0 {
		s += ":" + strconv.Itoa(h.Port)
	}
	return s
}

// ErrOtherRepo is the error for a repository that is not the factory's.
var ErrOtherRepo = errors.New("none of the repositories of this factory")

// Repo returns a repository in the configuration's spelling.
func (c *Config) Repo(said string) (string, error) {
	i := slices.IndexFunc(c.Forge.Repos, func(r string) bool { return strings.EqualFold(r, said) })
	if i < 0 {
		return "", fmt.Errorf("%s is %w", said, ErrOtherRepo)
	}
	return c.Forge.Repos[i], nil
}

// Item parses a reference and returns it in the configuration's spelling. A bare number is in the repository home, or
// in the factory's only repository if home is empty.
func (c *Config) Item(home, said string) (item forge.Ref, err error) {
	if home == "" && len(c.Forge.Repos) == 1 {
		home = c.Forge.Repos[0]
	}
	if item, err = forge.ParseRef(said, home); err != nil {
		return item, err
	}
	item.Repo, err = c.Repo(item.Repo)
	return item, err
}

// Thread finds a thread by name; nil when there is none.
func (c *Config) Thread(name string) *Thread {
	return find(c.Threads, func(t *Thread) bool { return t.Name == name })
}

// Agent finds an agent by name; nil when there is none.
func (c *Config) Agent(name string) *agents.Agent {
	return find(c.Agents, func(a *agents.Agent) bool { return a.Name == name })
}

// AgentByLogin finds the agent that acts under a forge account; nil when no configured agent has it.
func (c *Config) AgentByLogin(login string) *agents.Agent {
	return find(c.Agents, func(a *agents.Agent) bool { return a.Login == login })
}

// Role finds a role by name; nil when no agent has it.
func (c *Config) Role(name string) *agents.Role {
	return find(c.Roles, func(r *agents.Role) bool { return r.Name == name })
}

// find returns the first element that fits; nil when there is none.
func find[T any](list []T, fits func(*T) bool) *T {
	for i := range list {
		if fits(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// Placed returns a job with everything that decides which machine can run an agent's sessions, and nothing else.
func (c *Config) Placed(a *agents.Agent) agents.Job {
	j := agents.Job{
		Agent: a.Name, Thread: a.Thread, User: cmp.Or(a.User, c.Factory.User), OwnUser: c.OwnUser(a), Limits: a.Limits,
		Grace: c.Factory.StopGrace, Timeout: time.Hour,
	}
	if t := c.Thread(a.Thread); t != nil {
		j.Nodes, j.Target = t.Nodes, t.Target
	}
	return j
}

// UserOf returns the system account of an agent's sessions in a role; empty means the supervisor's own.
func (c *Config) UserOf(a *agents.Agent, r *agents.Role) string {
	if a.User == "" && !r.Root {
		return c.Factory.User
	}
	return a.User
}

// OwnUser reports whether an agent has a system account that no other agent and no service uses.
func (c *Config) OwnUser(a *agents.Agent) bool { return c.OnlyUser(a.User) }

// OnlyUser reports whether a system account belongs to one agent or service alone.
func (c *Config) OnlyUser(user string) bool {
	n := 0
	for i := range c.Agents {
		if c.Agents[i].User == user {
			n++
		}
	}
	for i := range c.Services {
		if c.Services[i].User == user {
			n++
		}
	}
	return user != "" && user != c.Factory.User && n == 1
}

// Environ returns the supervisor's environment, base, as sessions and services get it: with what is newer.
func (c *Config) Environ(base []string) []string {
	more := make([]string, len(c.Newer))
	for i, v := range c.Newer {
		more[i] = v.Name + "=" + v.Value.Reveal()
	}
	return agents.Setenv(base, more)
}

// Hidden returns the values that no log, outcome, answer or post may show: the secrets of the configuration, and the
// credentials in the supervisor's environment, of which sessions get the keys of models.
func (c *Config) Hidden(environ []string) []string {
	list := []string{c.Forge.Token.Reveal(), c.Forge.WebhookSecret.Reveal()}
	for i := range c.Agents {
		list = append(list, c.Agents[i].Token.Reveal())
	}
	for _, v := range slices.Concat(c.Secrets, agents.Credentials(environ), agents.Credentials(c.Environ(environ))) {
		list = append(list, v.Value.Reveal())
	}
	return list
}
