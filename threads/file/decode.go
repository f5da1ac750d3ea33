// Package file decodes factory.toml into a threads.Config and reports every mistake at once, each with its file, line
// and key. It refuses contradictions; Config.Problems judges whether the factory can do its work.
package file

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/tomltext"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Mistake is one mistake in a configuration file.
type Mistake struct {
	File string
	Line int    // from 1; 0 for something missing from the file
	Key  string // dotted, as TOML writes it; empty for a syntax error outside any key
	Text string
}

// Error returns the place and the mistake, on one line.
func (m Mistake) Error() string {
	var b strings.Builder
	b.WriteString(m.File)
	if m.Line > 0 {
		fmt.Fprintf(&b, ":%d", m.Line)
	}
	if m.Key != "" {
		b.WriteString(": " + m.Key)
	}
	return b.String() + ": " + m.Text
}

// Mistakes are all mistakes in a configuration file, in the order of its lines. As an error it is never empty.
type Mistakes []Mistake

// Error returns one line per mistake.
func (m Mistakes) Error() string { return errors.Join(m.Unwrap()...).Error() }

// Unwrap returns the mistakes one by one, for errors.As.
func (m Mistakes) Unwrap() []error {
	all := make([]error, len(m))
	for i := range m {
		all[i] = m[i]
	}
	return all
}

// Decode decodes the text of a factory.toml. name is the name of the file in messages, lookupEnv is os.LookupEnv or a
// stand-in. The error is of type Mistakes and has every mistake, unless a syntax error hides others. With an error
// the configuration is nil, else it is complete: factory.toml.example documents the defaults.
func Decode(name, text string, lookupEnv func(string) (string, bool)) (*threads.Config, error) {
	config, mistakes := DecodeRight(name, text, lookupEnv)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return config, nil
}

// DecodeRight decodes what is right of a factory.toml, to check the rest of a factory in the same run. A wrong value
// counts as missing. The configuration is complete only without mistakes, and nil if the text is no TOML.
func DecodeRight(name, text string, lookupEnv func(string) (string, bool)) (*threads.Config, Mistakes) {
	d := &decoder{config: threads.Config{Name: name}, lookupEnv: lookupEnv, assigned: map[string]assignment{}}
	var values map[string]any
	if _, err := toml.Decode(text, &values); err != nil {
		return nil, Mistakes{syntaxMistake(name, text, err)}
	}
	d.lines = tomltext.Lines(text)
	d.read(&table{d: d, values: values})
	slices.SortFunc(d.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text))
	})
	slices.SortFunc(d.config.Secrets, func(a, b agents.SecretVar) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Thread, b.Thread))
	})
	slices.SortFunc(d.config.Removed, func(a, b threads.RemovedKey) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	return &d.config, d.mistakes
}

// read reads the whole file, and checks its tables against each other.
func (d *decoder) read(root *table) {
	forgeTable := root.table("forge")
	d.readForge(forgeTable)
	d.readFactory(root.table("factory"))
	d.readThreads(root.tables("threads"))
	d.readAgents(root.tables("agents"))
	d.readRoles(root.tables("roles"))
	d.readRoutes(root.table("routes"))
	d.readStealing(root.table("stealing"))
	d.readFleet(root.table("fleet"))
	d.readNomad(root.table("nomad"))
	d.readNotify(root.table("notify"))
	d.readServices(root.tables("services"))
	d.readRepos(root.tables("repos"))
	root.done()
	if !forgeTable.has("max_unreviewed") && !d.hasReviewers() {
		d.config.Forge.MaxUnreviewed = unreviewedByPeople
	}
	d.checkAccounts()
	d.checkExposed()
	d.checkWaiting()
	d.checkFallback()
	d.checkRenamed()
	d.checkLadders()
	d.checkListening()
	d.checkEgress()
	d.checkRoot()
}

// decoder is the state of one Decode.
type decoder struct {
	config    threads.Config
	lookupEnv func(string) (string, bool)
	lines     map[string]int
	mistakes  Mistakes
	assigned  map[string]assignment // by agent: the thread that names it
	sandbox   agents.Sandbox        // of roles without their own setting
}

func (d *decoder) wrong(line int, key toml.Key, format string, args ...any) {
	d.mistakes = append(d.mistakes, Mistake{d.config.Name, line, key.String(), fmt.Sprintf(format, args...)})
}

// secret records a secret with its owner and returns it. An empty value is not a secret.
func (d *decoder) secret(name, value, owner string) agents.Secret {
	return d.keep(agents.SecretVar{Name: name, Value: agents.Secret(value), Agent: owner})
}

// keep is secret for a secret of any owner.
func (d *decoder) keep(s agents.SecretVar) agents.Secret {
	if s.Value != "" && !slices.Contains(d.config.Secrets, s) {
		d.config.Secrets = append(d.config.Secrets, s)
	}
	return s.Value
}

// syntaxMistake converts an error of the TOML parser.
func syntaxMistake(name, text string, err error) Mistake {
	line, key, problem := tomltext.Mistake(text, err)
	return Mistake{File: name, Line: line, Key: key, Text: problem}
}

func (d *decoder) readForge(t *table) {
	f := &d.config.Forge
	f.URL = d.forgeURL(t)
	if f.Token = t.token("token", "", "FORGE_TOKEN"); f.Token == "" && !t.has("token") {
		t.wrong("token", "is not set, and $FORGE_TOKEN is not either")
	}
	f.Repos = d.repos(t)
	f.Bots, f.Bases = t.set("bots"), t.set("bases")
	f.ReadersAll = t.oneOf("readers", "collaborators", "collaborators", "all") == "all"
	f.MergeAuto = t.oneOf("merge", "auto", "auto", "manual") == "auto"
	f.MergeOnRed = t.truth("merge_on_red", false)
	f.ClaimSingle = t.oneOf("claim", "ref", "ref", "single") == "single"
	f.RequireMerged = t.truth("require_merged", false)
	f.AnswersAuthor = t.oneOf("answers", "writers", "author", "writers") == "author"
	f.MaxUnreviewed = t.number("max_unreviewed", 3, 1)
	f.MaxUnseen = t.size("max_unseen", 1<<20)
	f.MaxReviewRounds = t.number("max_review_rounds", 5, 1)
	f.MaxCIFixes = t.number("max_ci_fixes", 3, 0)
	f.MaxReviewsHour = t.number("max_reviews_per_hour", 6, 1)
	f.MaxSessionsDay = t.number("max_sessions_per_day", 100, 1)
	t.removedWait("rework_wait", threads.ReworkWait, "rework goes to another agent")
	f.WebhookSecret = t.secret("webhook_secret", "", "")
	t.done()
}

// unreviewedByPeople is the default of max_unreviewed in a factory without review agents: people take days.
const unreviewedByPeople = 10

func (d *decoder) hasReviewers() bool {
	return slices.ContainsFunc(d.config.Roles, func(r agents.Role) bool { return r.On.Does(agents.KindReview) })
}

func (d *decoder) forgeURL(t *table) string {
	if t.has("url") {
		s, ok := get[string](t, "url", "an address in quotes")
		if !ok {
			return ""
		}
		return t.address("url", "", s)
	}
	t.ignore("url")
	s, _ := d.lookupEnv("FORGE_URL")
	if s == "" {
		t.wrong("url", "is not set, and $FORGE_URL is not either")
		return ""
	}
	return t.address("url", "$FORGE_URL", s)
}

// repos returns the repositories of the file, or else those of $FORGE_REPO, separated by commas.
func (d *decoder) repos(t *table) []string {
	repos := t.set("repos")
	if !t.has("repos") {
		s, _ := d.lookupEnv("FORGE_REPO")
		for repo := range strings.SplitSeq(s, ",") {
			if repo = strings.TrimSpace(repo); repo != "" {
				repos = append(repos, repo)
			}
		}
		slices.Sort(repos)
		repos = slices.Compact(repos)
		if len(repos) == 0 {
			t.wrong("repos", "is not set, and $FORGE_REPO is not either")
		}
	} else if list, ok := t.values["repos"].([]any); ok && len(list) == 0 {
		t.wrong("repos", `is empty, want at least one "owner/name"`)
	}
	for _, repo := range repos {
		if !forge.ValidRepo(repo) {
			t.wrong("repos", `has %q in it, want "owner/name"`, repo)
		}
	}
	return repos
}

// minLog is the least limit of a log: it has to hold the start and the end of a session.
const minLog = 64 << 10

func (d *decoder) readFactory(t *table) {
	d.config.Factory = threads.Factory{
		State:     t.text("state"),
		User:      t.text("user"),
		StopGrace: t.duration("stop_grace", 7*time.Second, 0),

		MinFreeMemory: t.size("min_free_memory", 512<<20),
		MinFreeDisk:   t.size("min_free_disk", 1<<30),
		MaxLog:        t.size("max_log", 64<<20),

		Keep:           t.duration("keep", 30*24*time.Hour, time.Hour),
		KeepWorkspaces: t.duration("keep_workspaces", 48*time.Hour, 0),
	}
	if n := d.config.Factory.MaxLog; n > 0 && n < minLog {
		t.wrong("max_log", "is %s, want at least %s", agents.Size(n), agents.Size(minLog))
	}
	d.readListeners(t)
	t.removed("decide", "decisions are not compared with another build's any more; remove it")
	t.removed("eta", "comments on issues no longer predict when they are done; remove it, and use disinto why REF --until")
	d.sandbox = t.sandbox(agents.Sandbox{Mode: agents.SandboxAuto})
	t.done()
}
