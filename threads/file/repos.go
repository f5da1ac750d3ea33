package file

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

const (
	setupTime  = 10 * time.Minute // npm ci of a large project takes two minutes
	verifyTime = 15 * time.Minute
)

// readRepos reads the tables of single repositories. Their names are among those of [forge].
func (d *decoder) readRepos(tables []*table) {
	for _, t := range tables {
		r := threads.Repo{Name: d.repoName(t)}
		r.Setup, r.Verify = t.commands("setup", setupTime), t.commands("verify", verifyTime)
		r.VerifyTries = t.number("verify_tries", 3, 0)
		if t.has("verify_tries") && !t.has("verify") {
			t.wrong("verify_tries", "is set, and verify is not")
		}
		if t.values != nil && len(t.values) == 0 {
			d.wrong(t.line, t.path, "is empty, want setup or verify")
		}
		t.done()
		if d.config.RepoTable(r.Name) != nil {
			d.wrong(t.line, t.path, "is the repository of another table, too: the case of letters does not count")
		}
		d.config.Repos = append(d.config.Repos, r)
	}
	slices.SortFunc(d.config.Repos, func(a, b threads.Repo) int { return cmp.Compare(a.Name, b.Name) })
}

// repoName returns the name of a repository's table as [forge] writes it.
func (d *decoder) repoName(t *table) string {
	repos := d.config.Forge.Repos
	if i := slices.IndexFunc(repos, func(r string) bool { return strings.EqualFold(r, t.name()) }); i >= 0 {
		return repos[i]
	}
	if t.noted == nil && len(repos) > 0 {
		d.wrong(t.line, t.path, "is not among the repos of [forge]%s", threads.Suggest(t.name(), repos))
	}
	return t.name()
}

// commands reads a list of commands and their time limit.
func (t *table) commands(key string, unset time.Duration) agents.Commands {
	c := agents.Commands{Argv: t.programs(key), Timeout: t.duration(key+"_timeout", unset, time.Second)}
	if t.has(key+"_timeout") && !t.has(key) {
		t.wrong(key+"_timeout", "is set, and %s is not", key)
	}
	return c
}
