//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

func checkCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check [--config FILE] [--setup REPO]", Args: cobra.NoArgs,
		Short: "report every problem: file, forge, tokens, labels, backends",
		Long: `
Checks everything that run needs: the file is valid, the forge answers, every
token belongs to its agent, the repositories are writable, every backend
answers, every program exists, sessions can use their folders, and a hub can
read its other hosts. One run reports everything: if the file has mistakes, what
is right of it is checked all the same.

It also finds work that would wait for ever: of authors that have no reviewer,
with labels and skills that no agent takes, of sessions that wait for each
other. It finds slots, agents and rules that are of no use, and computes the
most that a night can cost.

check writes nothing. --fix creates missing labels, as run does, registers the
web hook again, and registers the control room so that people can sign in with
the forge. It also gives accounts the access to repositories that they lack, and
changes no token: with that of an administrator in $FORGE_ADMIN_TOKEN, or with
the supervisor's, if it may do that. --notify sends a message to each url of
[notify]. Exits 1 if there is a problem.

--setup only runs the commands of setup of a repository, as a session of one of
its agents would at the head of the default branch, in an empty home, and says
how long each took.`,
		Example: `
  disinto check
  disinto check --config next.toml --offline
  disinto check --setup johba/harb`,
	}
	flags := cmd.Flags()
	k := new(checker)
	flags.BoolVar(&k.fix, "fix", false, "create labels, give access, register the hook and\nthe control room")
	flags.BoolVar(&k.notify, "notify", false, "send a message to each url of [notify]")
	flags.StringVar(&k.setup, "setup", "", "only run the setup of a `REPO`")
	flags.BoolVar(&k.offline, "offline", false, "make no network requests")
	k.place.flags(flags)
	jsonFlag(flags, &k.json, "print the findings, for programs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		k.c = c
		return k.check(cmd.Context())
	}
	return cmd
}

// checker runs the checks and collects their findings.
type checker struct {
	place                      location
	fix, notify, offline, json bool
	setup                      string // the repository whose setup alone is run; empty: everything is checked

	c       *cli
	config  *threads.Config
	found   []screen.Finding
	started []string      // the starts of CLIs that were tried
	barred  []string      // repositories to which the supervisor has no access
	open    []forge.Issue // open issues on the forge; nil if they were not read
}

func (k *checker) addOK(about, format string, args ...any) {
	k.found = append(k.found, screen.Finding{About: about, Text: fmt.Sprintf(format, args...)})
}

func (k *checker) addNote(about, text string) {
	k.found = append(k.found, screen.Finding{About: about, Note: true, Text: text})
}

func (k *checker) addProblem(about string, err error) {
	for _, line := range errorLines(err) {
		k.found = append(k.found, screen.Finding{About: about, Problem: true, Text: line})
	}
}

// waits looks for work that would wait for ever, and for what is of no use.
func (k *checker) waits() {
	for _, f := range k.config.Check(k.open) {
		k.found = append(k.found, screen.Finding{
			About: f.About, Problem: f.Weight == threads.Wrong, Note: f.Weight == threads.Hint, Text: f.Text,
		})
	}
}

func (k *checker) check(ctx context.Context) error {
	if k.notify && k.offline {
		return usagef("--notify sends messages, which --offline forbids")
	}
	config, whole, err := readRight(k.place.configFile(), k.c.lookup)
	k.addProblem("file", err)
	switch k.config = config; {
	case config == nil:
	case k.setup != "":
		k.runSetup(ctx)
	default:
		k.parts(ctx, whole)
	}
	if err := k.print(k.json); err != nil {
		return err
	}
	if slices.ContainsFunc(k.found, func(f screen.Finding) bool { return f.Problem }) {
		return errSaid
	}
	return nil
}

// parts checks everything but the file. Without whole the file has mistakes, which file reported, and what follows from
// the file as a whole is left out.
func (k *checker) parts(ctx context.Context, whole bool) {
	if whole {
		k.addOK("file", "%s: %s", k.place.configFile(), describe(k.config))
		k.work()
	}
	for _, line := range removedKeys(k.config) {
		k.addNote("file", line)
	}
	k.agents(whole)
	if !k.offline {
		k.forge(ctx)
		k.backends(ctx)
		k.cluster(ctx)
		k.fleet(ctx)
		k.notified(ctx)
	}
	if whole {
		k.waits()
	}
	k.credentials(ctx)
	k.programs()
	k.starts(ctx)
	k.services()
	k.containment()
	k.sandbox()
	k.folders()
	k.ports(ctx)
	k.disk(k.place.stateDir(k.c))
}

// print prints the findings, problems last: the last lines stay visible on a terminal.
func (k *checker) print(asJSON bool) error {
	slices.SortStableFunc(k.found, func(a, b screen.Finding) int {
		return rank(a) - rank(b)
	})
	document := map[string][]screen.Finding{"findings": k.found}
	return k.c.print(asJSON, document, func(v screen.View) string { return v.Findings(k.found) })
}

func rank(f screen.Finding) int {
	switch {
	case f.Problem:
		return 2
	case f.Note:
		return 1
	}
	return 0
}

// agents checks the agents against the scheduler's rules, and their accounts against the system.
func (k *checker) agents(whole bool) {
	for _, p := range k.config.Problems() {
		if whole || p.Reason.Code == threads.NoToken { // others may follow from a mistake in the file
			k.addProblem("agents", errors.New(p.String()))
		}
	}
	for _, user := range accounts(localPart(k.config)) {
		if err := process.CheckUser(user); err != nil {
			k.addProblem("agents", fmt.Errorf("cannot run agents as %s: %w", user, err))
		}
	}
	if line := accountLine(k.config); line != "" {
		k.addNote("agents", line)
	}
	for i := range k.config.Roles {
		if r := &k.config.Roles[i]; r.CLI == agents.ACP && whole {
			k.addNote("agents", fmt.Sprintf("role %s: %s speaks ACP: budgets in tokens do not count it, those in dollars do if "+
				"it reports its cost, and it reads the settings of the repository", r.Name, r.Program(r.Command)))
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	for _, r := range localPart(k.config).Roles {
		if r.Root {
			k.addNote("agents", fmt.Sprintf("role %s has root = true: its sessions can change the owner and the mode of every "+
				"file, also of secrets.env", r.Name))
		}
	}
}

// forge checks everything that the supervisor needs from the forge, then the owners of the agents' tokens. A repository
// or an account that lacks a right keeps no other one from being checked: each round of check and repair costs a person
// more than a request.
func (k *checker) forge(ctx context.Context) {
	if k.config.Forge.URL == "" { // file reported it
		return
	}
	config := *k.config
	for i := range config.Agents { // without the supervisor's token, those of agents can be checked
		config.Forge.Token = cmp.Or(config.Forge.Token, config.Agents[i].Token)
	}
	if config.Forge.Token == "" {
		return
	}
	client, err := newForge(k.c, &config)
	if err != nil {
		k.addProblem("forge", err)
		return
	}
	members := k.members(ctx, client)
	if k.fix {
		k.repairAccess(ctx, client, members)
	}
	known := false // our token
	if k.config.Forge.Token != "" {
		err = k.labels(ctx, client)
		if errors.Is(err, forge.ErrUnavailable) {
			return // every other request would fail in the same way
		}
		_, who := client.WhoAmI(ctx, "")
		known = who == nil
	}
	if known {
		k.read(ctx, client)
		k.hooks(ctx, client)
		k.signIn(ctx, client)
	}
	k.access(members)
}

// readTime limits the scan of open issues. check uses the issues that it has read by then.
const readTime = 30 * time.Second

// read reads the open issues, whose labels and skills waits checks, and reports the repositories in which agents cannot
// work. It ignores errors, because labels has reported them.
func (k *checker) read(ctx context.Context, client supervisor.Reader) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	facts, _ := client.Scan(ctx)
	k.open = facts.Issues
	for _, r := range facts.Repos {
		if why := cmp.Or(r.Off, r.NoPush); why != "" {
			k.addProblem("forge", errors.New(why))
		}
	}
	k.tests(ctx, client, &facts)
}

// backendTime is the timeout for any response of a backend.
const backendTime = 5 * time.Second

// backends checks that each backend answers. Any HTTP status counts, because servers differ in their paths.
func (k *checker) backends(ctx context.Context) {
	asked := map[string]bool{"": true}
	for i := range k.config.Threads {
		t := &k.config.Threads[i]
		urls := []string{t.BaseURL}
		for _, name := range t.Agents {
			if a := k.config.Agent(name); a != nil {
				urls = append(urls, a.BaseURL)
			}
		}
		for _, url := range urls {
			if asked[url] {
				continue
			}
			asked[url] = true
			served := slices.IndexFunc(k.config.Services, func(s threads.Service) bool { return s.Serves(url) })
			if err := checkReachable(ctx, url); err != nil && served >= 0 {
				k.addNote("backends", fmt.Sprintf("%s: %s does not answer now; service %s should serve it while disinto runs",
					t.Name, url, k.config.Services[served].Name))
			} else if err != nil {
				k.addProblem("backends", fmt.Errorf("%s: no answer from %s: %w; start it, or correct base_url", t.Name, url, err))
			} else {
				k.addOK("backends", "%s: %s answers", t.Name, url)
			}
			if t.Backend.Server() && url == t.BaseURL {
				k.server(ctx, t)
			}
		}
	}
}

func checkReachable(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, backendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/models", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// checkStart returns why an agent of a role cannot start its program; nil if nothing is known against it. Accounts that
// do not exist are reported for their agents.
func checkStart(config *threads.Config, r *agents.Role, program string, environ []string) error {
	for i := range config.Agents {
		a := &config.Agents[i]
		user := config.UserOf(a, r)
		if !slices.Contains(a.Roles, r.Name) || process.CheckUser(user) != nil {
			continue
		}
		if err := process.CheckStart(program, r.Cwd, environ, user); err != nil {
			return err
		}
	}
	return nil
}

// programs looks up the roles' programs as a session would, except those of sessions that run on other machines.
func (k *checker) programs() {
	config := localPart(k.config)
	for i := range config.Roles {
		r := &config.Roles[i]
		argv, err := r.Argv(agents.CommandData{Repo: "owner/name", Number: 1, Kind: agents.KindIssue})
		if err != nil {
			k.addProblem("programs", err)
			continue
		}
		if len(argv) == 0 || r.BuiltIn() && len(r.Own(argv)) == 0 {
			continue // agents or file reported it
		}
		path, err := process.Lookup(argv[0], r.Cwd, k.c.environ)
		if err != nil {
			k.addProblem("programs", fmt.Errorf("role %s: cannot find %s: %w", r.Name, argv[0], err))
			continue
		}
		if err := checkStart(config, r, argv[0], k.c.environ); err != nil {
			k.addProblem("programs", fmt.Errorf("role %s: cannot run %s: %w", r.Name, argv[0], err))
			continue
		}
		if r.BuiltIn() {
			own := r.Program(argv)
			if path, err = process.Lookup(own, "", k.c.environ); err != nil {
				how := ""
				if cli := agents.FindCLI(r.CLI); cli != nil {
					how = "; install it (npm install --global " + cli.Package + "), or add its directory to PATH"
				}
				k.addProblem("programs", fmt.Errorf("role %s: cannot find %s: %w%s", r.Name, own, err, how))
				continue
			}
		}
		k.addOK("programs", "%s: %s", r.Name, path)
	}
}
