package main

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/file"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// obeyed is a factory.toml. A name in braces is replaced by more lines for its section.
const obeyed = `
[forge]
url = "http://forge"
repos = ["o/r"]
{forge}
[factory]
{factory}
[threads.api]
backend = "anthropic"
agents = ["review-a", "dev-c"]
{api}
[threads.llama]
backend = "local"
agents = ["dev-a", "dev-b", "gardener-a"]
{llama}
[agents.dev-a]
skills = ["sql", "go"]
{dev-a}
[agents.dev-b]
skills = ["go", "sql"]
{dev-b}
[agents.dev-c]
skills = ["sql"]
{dev-c}
[agents.gardener-a]
{gardener-a}
[roles.dev]
cli = "claude"
{dev}
[roles.review]
cli = "claude"
{review}
[roles.gardener]
cli = "claude"
{gardener}
[routes]
{routes}
[stealing]
{stealing}
[repos."o/r"]
priority = 5
{repo}
`

// turned is a key of factory.toml with two values that change a trial, or the reason why none can.
type turned struct {
	key      string
	section  string            // the section of obeyed
	one, two string            // the lines with the two values
	also     map[string]string // lines for both trials, by section
	play     func(*sim.Trial)  // changes both trials
	unlike   string            // the reason why a trial cannot obey the key
}

const (
	access    = "it is about access to the forge"
	programs  = "it is about programs, and a trial runs none"
	machine   = "it is about the machine, and a trial has none"
	services  = "a trial has no services; a forecast goes on with those that are down"
	cluster   = "it says where sessions run, not how long they take"
	unblocked = "a journal has no dependencies; a forecast obeys it"
	messages  = "messages change no work"
)

func cannot(reason string, keys ...string) (rows []turned) {
	for _, key := range keys {
		rows = append(rows, turned{key: key, unlike: reason})
	}
	return rows
}

var ladders = map[string]string{"dev-a": `escalate = ["dev-c"]`, "routes": `sql = "dev-a"`}

// keys has a row for each key of factory.toml.
var keys = slices.Concat([]turned{
	{key: "forge.merge", section: "forge", two: `merge = "manual"`},
	{key: "forge.max_unreviewed", section: "forge", one: "max_unreviewed = 1", two: "max_unreviewed = 9"},
	{key: "forge.max_review_rounds", section: "forge", one: "max_review_rounds = 1"},
	{key: "forge.max_ci_fixes", section: "forge", one: "max_ci_fixes = 1"},
	{key: "factory.listen_hooks", section: "factory", two: `listen_hooks = "127.0.0.1:1"`, also: map[string]string{
		"forge": `webhook_secret = "long-enough-a-secret"`, "llama": `idle_interval = "1h"`, "api": `idle_interval = "1h"`,
	}},
	{key: "threads.backend", section: "api", one: "overlap = true", two: "overlap = true\nbackend = \"local\""},
	{key: "threads.max_concurrent", section: "llama", one: "max_concurrent = 1", two: "max_concurrent = 2"},
	{key: "threads.overlap", section: "llama", two: "overlap = true"},
	{key: "threads.max_sessions", section: "api", one: "max_sessions = 1", two: "max_sessions = 2"},
	{key: "threads.budget", section: "llama", two: "budget = { tokens_per_day = 1000 }"},
	{key: "threads.windows", section: "api", two: `windows = [{ length = "5h", usd = 3.0 }]`},
	{key: "threads.reserve", section: "api", two: "reserve = 0.5", also: map[string]string{
		"api": `windows = [{ length = "5h", usd = 6.0 }]`,
	}},
	{key: "threads.fallback", section: "llama", one: "fallback = false", also: ladders, play: out(agents.Limited)},
	{
		key: "threads.interval", section: "llama", two: `interval = "10m"`,
		also: map[string]string{"api": `interval = "10m"`},
	},
	{key: "threads.idle_interval", section: "llama", two: `idle_interval = "1h"`, also: map[string]string{
		"api": `idle_interval = "1h"`,
	}},
	{
		key: "threads.breaker_interval", section: "llama", one: `breaker_interval = "1m"`,
		two: `breaker_interval = "2h"`, play: out(agents.BackendDown),
	},
	{key: "threads.agents", section: "llama", two: `agents = ["dev-a", "dev-b", "gardener-a", "dev-d"]`},
	{key: "threads.hold", section: "llama", two: `hold = "15m"`},
	{key: "threads.cache", section: "llama", two: `cache = "server"`},
	{key: "threads.executor", section: "llama", two: `executor = "nomad"`},
	{key: "agents.role", section: "dev-c", two: `role = "review"`},
	{key: "agents.roles", section: "dev-c", two: `roles = ["dev", "review"]`},
	{key: "agents.skills", section: "dev-c", one: `skills = []`, two: `skills = ["sql", "go"]`},
	{key: "agents.budget", section: "dev-a", two: "budget = { tokens_per_day = 1000 }"},
	{key: "agents.escalate", section: "dev-a", two: `escalate = ["dev-c"]`},
	{key: "agents.escalate_after", section: "dev-a", one: "escalate_after = 1", two: "escalate_after = 3", also: ladders},
	{key: "roles.on", section: "gardener", two: `on = "issue"`},
	{key: "roles.label", section: "dev", two: `label = "skill/sql"`},
	{key: "roles.every", section: "gardener", one: `every = "1h"`, two: `every = "6h"`},
	{key: "roles.cron", section: "gardener", one: `cron = "0 * * * *"`, two: `cron = "0 6 * * *"`},
	{
		key: "roles.timezone", section: "gardener",
		one: "cron = \"0 10 * * *\"\ntimezone = \"UTC\"", two: "cron = \"0 10 * * *\"\ntimezone = \"Asia/Tokyo\"",
	},
	{
		key: "roles.jitter", section: "gardener",
		one: "cron = \"0 * * * *\"", two: "cron = \"0 * * * *\"\njitter = \"50m\"",
	},
	{key: "roles.priority", section: "gardener", one: "priority = 1", two: "priority = 10"},
	{key: "roles.timeout", section: "dev", two: `timeout = "5m"`},
	{key: "roles.plan", section: "dev", two: "plan = true"},
	{key: "roles.max_tokens", section: "dev", two: "max_tokens = { session = 50_000 }"},
	{key: "roles.max_usd", section: "dev", two: "max_usd = { issue = 2.0 }"},
	{key: "roles.escalate", section: "dev", two: `escalate = ["dev-c"]`},
	{
		key: "roles.escalate_after", section: "dev", one: "escalate_after = 1", two: "escalate_after = 4",
		also: map[string]string{
			"dev": `escalate = ["dev-c"]`,
		},
	},
	{key: "repos.agents", section: "repo", two: `agents = ["dev-a", "gardener-a"]`},
	{key: "repos.reviewers", section: "repo", two: `reviewers = ["dev-c"]`, also: map[string]string{
		"dev-c": `roles = ["dev", "review"]`,
	}},
	{key: "repos.max_sessions", section: "repo", two: "max_sessions = 1"},
	{key: "repos.budget", section: "repo", two: "budget = { tokens_per_day = 1000 }"},
	{key: "routes", section: "routes", two: `sql = "dev-c"`},
	{
		key: "stealing.enabled", section: "stealing", one: "enabled = true", two: "enabled = false", also: pushed,
		play: hurried,
	},
},
	cannot(access, "forge.url", "forge.token", "forge.repos", "forge.bots", "forge.bases", "forge.claim", "agents.token",
		"agents.forge_user", "agents.renamed_from", "threads.renamed_from"),
	cannot("the prompt is the program's affair", "forge.readers", "agents.model"),
	cannot("people answer when they did", "forge.answers"),
	cannot("no person's pull request is in a load", "forge.max_reviews_per_hour"),
	cannot("people file the issues of a load", "forge.max_sessions_per_day"),
	cannot("reviewers of a load are shown everything", "forge.max_unseen"),
	cannot("it counts with listen_hooks, which has a row", "forge.webhook_secret"),
	cannot(unblocked, "forge.require_merged"),
	cannot("no branch of a load is red", "forge.merge_on_red"),
	cannot(machine, "factory.state", "factory.user", "factory.stop_grace", "factory.sandbox", "factory.sandbox_read",
		"factory.sandbox_write", "factory.sandbox_connect", "factory.min_free_memory", "factory.min_free_disk",
		"factory.max_log", "factory.keep", "factory.keep_workspaces", "agents.user", "agents.limits"),
	cannot("it is about who may ask the supervisor", "factory.listen", "factory.listen_token", "factory.listen_hosts",
		"factory.listen_web", "factory.web_client_id", "factory.web_url", "factory.listen_metrics", "factory.hooks_url"),
	cannot("a journal has the priority of each session", "repos.priority"),
	cannot(programs, "repos.prompts"),
	cannot(programs, "threads.base_url", "threads.env", "threads.env_allow", "threads.env_deny", "agents.base_url",
		"roles.cli", "roles.acp", "roles.command", "roles.cwd", "roles.prompt", "roles.env_allow", "roles.env_deny",
		"roles.sandbox", "roles.sandbox_read", "roles.sandbox_write", "roles.sandbox_connect", "roles.listen", "roles.root"),
	cannot("a journal does not record when a program was silent", "roles.stall"),
	cannot("a journal has the time of the whole session, in which the program waits", "roles.waits_for_review"),
	cannot("its worth is in the times of the journal already", "threads.kv_save", "threads.kv_folder"),
	cannot("a trial connects to nothing", "factory.egress", "factory.setup_egress", "roles.egress", "roles.setup_egress",
		"roles.network",
		"repos.egress", "repos.setup_egress"),
	cannot(cluster, "threads.node", "threads.node_pool", "threads.namespace", "threads.datacenters", "threads.driver",
		"threads.image", "threads.stop", "nomad.address", "nomad.token", "nomad.namespace", "nomad.region",
		"nomad.datacenters", "nomad.volume", "nomad.program", "nomad.ca_cert", "nomad.client_cert", "nomad.client_key"),
	cannot("other hosts are not in a journal", "fleet.hub", "fleet.hosts"),
	cannot("sessions take as long as those of the journal, which had their setup", "repos.setup", "repos.setup_timeout",
		"repos.verify", "repos.verify_timeout", "repos.verify_tries"),
	cannot(services, "services.command", "services.before", "services.needs", "services.user", "services.limits",
		"services.ready", "services.oneshot", "services.restart", "services.env", "services.cwd", "services.stop_signal",
		"services.grace", "services.stdout"),
	cannot(messages, "notify.urls", "notify.on"),
)

// pushed routes all work to one agent.
var pushed = map[string]string{"routes": `sql = "dev-a"`}

// hurried files everything ten times as fast.
func hurried(t *sim.Trial) {
	for i := range t.Load {
		t.Load[i].At /= 10
	}
}

// out makes the local server fail for some hours with a result.
func out(how agents.Result) func(*sim.Trial) {
	return func(t *sim.Trial) {
		t.Outages = []sim.Outage{{
			Thread: "llama", From: time.Hour, Until: 4 * time.Hour, Result: how, After: 20 * time.Second,
		}}
	}
}

// config returns the trial of obeyed with more lines.
func (k *turned) config(t *testing.T, lines string) *sim.Trial {
	t.Helper()
	text := obeyed
	for section, more := range k.also {
		text = strings.Replace(text, "{"+section+"}", more+"\n{"+section+"}", 1)
	}
	before := text
	text = strings.Replace(text, "{"+k.section+"}", lines, 1)
	if text == before && lines != "" {
		t.Fatalf("found no section %s", k.section)
	}
	text = once(text)
	c, err := file.Decode("factory.toml", text, func(name string) (string, bool) {
		if name == "NOMAD_ADDR" {
			return "", false
		}
		return "pretended", true
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for i := range c.Agents {
		c.Agents[i].Token = "pretended"
	}
	for i := range c.Roles {
		if len(c.Roles[i].Command) == 0 {
			c.Roles[i].Command = []string{"pretended"}
		}
	}
	trial := sim.Replay(obeyedJournal(), c, 30*24*time.Hour)
	trial.Policy, trial.Seed, trial.Drain, trial.Quiet = sim.Ours, 1, 5*time.Hour, true
	if k.play != nil {
		k.play(&trial)
	}
	return &trial
}

// once removes unused placeholders. If two lines set the same key of a table, it keeps the later one.
func once(text string) string {
	var out []string
	at := make(map[string]int)
	for line := range strings.Lines(text) {
		key, _, set := strings.Cut(line, " =")
		switch {
		case strings.HasPrefix(line, "{"):
			continue
		case strings.HasPrefix(line, "["):
			clear(at)
		case set:
			if before, known := at[key]; known {
				out[before] = ""
			}
			at[key] = len(out)
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// obeyedJournal covers six hours: issues that come back from review, failed checks, failures, a question, scheduled
// work, and an hour without the local server.
func obeyedJournal() sim.Journal {
	begin := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	var j sim.Journal
	add := func(n int, kind agents.Kind, agent string, at, took time.Duration, how agents.Result, v ledger.Verdict) {
		p := ledger.Past{
			Agent: agent, Kind: kind, Role: string(kind), Thread: "llama", Outcome: how, Verdict: v, Priority: 1 + n%10,
			Ref: ledger.Ref{Repo: "o/r", Number: int64(n)}, Ready: begin.Add(at), Start: begin.Add(at),
			End:   begin.Add(at + took),
			Usage: &agents.Usage{InputTokens: 80_000, OutputTokens: 20_000, CostUSD: 1.5}, Skills: []string{"sql"},
		}
		p.Chain = p.Ref
		if kind == agents.KindReview {
			p.Thread = "api"
		}
		if kind == agents.KindSchedule {
			p.Role, p.Ref.Number, p.Chain.Number = "gardener", 0, 0
		}
		j.Past = append(j.Past, p)
	}
	const m = time.Minute
	for n := 1; n <= 14; n++ {
		at := time.Duration(n) * 25 * m
		switch n % 6 {
		case 0:
			add(n, agents.KindIssue, "dev-a", at, 9*m, agents.Failed, "")
		case 1:
			add(n, agents.KindIssue, "dev-b", at, 9*m, agents.Question, "")
		case 2:
			add(n, agents.KindIssue, "dev-c", at, 40*m, agents.BackendDown, "")
		}
		writer := []string{"dev-a", "dev-b"}[n%2]
		add(n, agents.KindIssue, writer, at+10*m, 10*m, agents.Done, "")
		if n%3 == 0 { // its checks fail three times
			for i := range time.Duration(3) {
				add(n, agents.KindRework, writer, at+21*m+2*i*m, m, agents.Done, "")
			}
		}
		for i := range time.Duration(n % 4) {
			add(n, agents.KindReview, "review-a", at+30*m+10*i*m, 4*m, agents.Done, ledger.ChangesRequested)
			add(n, agents.KindRework, writer, at+35*m+10*i*m, 5*m, agents.Done, "")
		}
		add(n, agents.KindReview, "review-a", at+80*m, 4*m, agents.Done, ledger.Approved)
		j.Timeline.Merges = append(j.Timeline.Merges, ledger.Merged{
			Ref: ledger.Ref{Repo: "o/r", Number: 1000 + int64(n)}, Chain: ledger.Ref{Repo: "o/r", Number: int64(n)},
			When: begin.Add(at + 85*m),
		})
		add(n, agents.KindSchedule, "gardener-a", at, 3*m, agents.Done, "")
	}
	return j
}

// Each key of factory.toml changes a trial's report, or has a reason why it cannot. make test tries a third of them.
func TestTrialsObeyEveryKey(t *testing.T) {
	plain := (&turned{}).config(t, "").Run()
	for i := range keys {
		k := &keys[i]
		if k.unlike != "" || i%3 > 0 && !storms() {
			continue
		}
		t.Run(k.key, func(t *testing.T) {
			one := plain
			if k.one != "" || k.also != nil || k.play != nil {
				one = k.config(t, k.one).Run()
			}
			two := k.config(t, k.two).Run()
			if reflect.DeepEqual(one, two) {
				t.Errorf("%q and %q give the same report: %d done, mean wait %s", k.one, k.two, one.Done, one.First.Mean)
			}
			if one.Twice+two.Twice > 0 || one.Done == 0 {
				t.Errorf("got %d and %d issues done, %d and %d of them twice", one.Done, two.Done, one.Twice, two.Twice)
			}
		})
	}
}

// keys has each key of factory.toml exactly once.
func TestTrialsKnowEveryKey(t *testing.T) {
	raw, err := os.ReadFile("../../factory.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Properties map[string]*shape
		More       json.RawMessage `json:"additionalProperties"`
	}
	var schema shape
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]int)
	for i := range keys {
		rows[keys[i].key]++
	}
	want := func(key string) {
		if rows[key] != 1 {
			t.Errorf("%s: got %d rows: add one that says how a trial obeys it, or why it cannot", key, rows[key])
		}
		delete(rows, key)
	}
	for table, s := range schema.Properties {
		each := new(shape)
		if json.Unmarshal(s.More, each) == nil && len(each.Properties) > 0 {
			s = each
		}
		if len(s.Properties) == 0 {
			want(table)
		}
		for key := range s.Properties {
			want(table + "." + key)
		}
	}
	for key := range rows {
		t.Errorf("%s has a row but is not a key", key)
	}
}
