//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/file"
)

func initCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "init", Args: cobra.NoArgs,
		Short: "set up a first factory: file, supervisor's account, two agents",
		Long: `
Creates the accounts of the supervisor and of the first two agents on the forge,
writes a commented factory.toml, and runs check. On a terminal it asks for the
values that no flag gives. The file comes last, when the forge, the repository
and each account have answered: after a mistake, correct the command and run it
again. A second run also gives accounts the access that they lack to
repositories. It changes nothing else that exists.

The supervisor's account is disinto-REPO, after the repository. If an account
exists and secrets.env has no token of it, it may be a person's or another
factory's, and init stops: --name gives the factory accounts of its own, and
--adopt works as an existing account too, as hire-an-agent does.

Like disinto hire-an-agent, it needs an administrator of the forge. An API
thread reviews the work of a local model; with --local alone, people review. To
use your own program, replace cli by command in factory.toml, then run init
again.`,
		Example: `
  disinto init
  disinto init --url https://forge.example.org --repo owner/name --api sonnet
  disinto init --repo owner/name2 --api sonnet --name two`,
	}
	flags := cmd.Flags()
	var f initFlags
	flags.StringVar(&f.URL, "url", "", "the forge's `URL` (default $FORGE_URL)")
	flags.StringVar(&f.Repo, "repo", "", "the `REPO` to work in, owner/name\n(default $FORGE_REPO)")
	flags.StringVar(&f.API, "api", "", "run agents on a paid API with this `MODEL`, such\nas sonnet")
	flags.StringVar(&f.Local, "local", "", "run agents on the llama-server at this `URL`")
	flags.StringVar(&f.Model, "local-model", "local", "the `MODEL` of that llama-server")
	flags.StringVar(&f.CLI, "cli", "claude", "the agents' `CLI`, one of\n"+strings.Join(agents.CLINames(), ", "))
	flags.StringVar(&f.name, "name", "", "end the names of all accounts with this `WORD`:\ndisinto-WORD, dev-MODEL-WORD")
	adoptFlag(flags, &f.adopt)
	flags.BoolVar(&f.offline, "offline", false, "run the final check without network requests")
	f.adminFlags.flags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), c, args) }
	return cmd
}

// initFlags has the flags of init. The exported fields are those of its factory.toml.
type initFlags struct {
	adminFlags
	offline bool
	name    string

	URL, Repo, API, Local, Model, CLI string
	User                              string // the agents' system account; empty: the supervisor's
}

func (f *initFlags) run(ctx context.Context, c *cli, _ []string) error {
	path := f.configFile()
	if exists(path) {
		if err := f.checkFlags(path); err != nil {
			return err
		}
		printStep(c, "file", path+" exists and stays unchanged")
	} else if err := f.promptMissing(c); err != nil {
		return err
	} else if f.draft, err = f.write(c, path); err != nil {
		return err
	}
	all, err := f.accounts(ctx, c)
	if err == nil {
		err = f.hire(ctx, c, all, path)
	}
	if err == nil && f.draft != "" && !f.dryRun {
		err = f.publish(c, path)
	}
	if err != nil {
		printStep(c, "next", "fix the problem or correct the command, then run disinto init again: it continues from there")
		return err
	}
	if f.dryRun {
		printStep(c, "next", "nothing was done: repeat without --dry-run")
		return nil
	}
	printStep(c, "check", "checks everything that run needs")
	k := &checker{place: f.location, offline: f.offline, c: c}
	if err := k.check(ctx); err != nil {
		printStep(c, "next", "fix the problems, and repeat disinto check until it finds none")
		return err
	}
	printStep(c, "next", "disinto run, then give an issue the label "+forge.LabelBacklog)
	return nil
}

// checkFlags refuses flags that contradict the existing file. init never changes that file, so a flag that corrects a
// mistake in it would have no effect.
func (f *initFlags) checkFlags(path string) error {
	var there struct {
		Forge struct {
			URL   string
			Repos []string
		}
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = toml.Unmarshal(text, &there)
	}
	if err != nil {
		return nil // readConfig reports the mistake
	}
	is := &there.Forge
	switch {
	case f.Repo != "" && len(is.Repos) > 0 && !slices.Contains(is.Repos, f.Repo):
		return usagef("%s has repos = %q, but --repo is %s: correct it there, or delete the file", path, is.Repos, f.Repo)
	case f.URL != "" && is.URL != "" && strings.TrimRight(f.URL, "/") != strings.TrimRight(is.URL, "/"):
		return usagef("%s has url = %q, but --url is %s: correct it there, or delete the file", path, is.URL, f.URL)
	}
	return nil
}

// promptMissing completes the values that no flag gives: from the user on a terminal, else from the environment.
func (f *initFlags) promptMissing(c *cli) error {
	p := &prompter{c: c, in: bufio.NewReader(c.stdin)}
	f.URL = p.answer(f.URL, "--url", "address of the forge", c.getenv("FORGE_URL"))
	f.Repo = p.answer(f.Repo, "--repo", "repository, owner/name", c.getenv("FORGE_REPO"))
	if f.API+f.Local == "" {
		const what = "model on a paid API such as sonnet, or address of a llama-server"
		if said := p.answer("", "--api MODEL or --local URL", what, ""); strings.Contains(said, "://") {
			f.Local = said
		} else {
			f.API = said
		}
	}
	if f.Repo != "" && !forge.ValidRepo(f.Repo) {
		p.wrong = append(p.wrong, usagef("cannot use %q as a repository: write owner/name", f.Repo))
	}
	if agents.FindCLI(f.CLI) == nil {
		names := strings.Join(agents.CLINames(), ", ")
		p.wrong = append(p.wrong, usagef("cannot use %q as a CLI: want one of %s", f.CLI, names))
	}
	p.checkAddress("--url", f.URL, "https://forge.example.org")
	p.checkAddress("--local", f.Local, "http://localhost:8080/v1")
	if hostPort.MatchString(f.API) {
		p.wrong = append(p.wrong, usagef("cannot use %q as a model: if it is the address of a llama-server, write http://%s",
			f.API, f.API))
	}
	if f.name != "" && f.name != slug(f.name) {
		p.wrong = append(p.wrong, usagef("cannot use --name %q: want up to 20 lower-case letters and digits, "+
			"single hyphens between them", f.name))
	}
	for _, value := range []string{f.URL, f.API, f.Local, f.Model} {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			p.wrong = append(p.wrong, usagef("cannot write %q into a factory.toml", value))
		}
	}
	return errors.Join(p.wrong...)
}

// hostPort matches an address without its scheme. Models have names such as qwen3:8b.
var hostPort = regexp.MustCompile(`^[^:/]+:[0-9]+(/.*)?$`)

// checkAddress refuses an address without a scheme. init does not guess one: it sends an administrator's token there.
func (p *prompter) checkAddress(flag, address, example string) {
	u, err := url.Parse(address)
	if address == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return
	}
	p.wrong = append(p.wrong, usagef("cannot use %s %q: write the whole address, such as %s", flag, address, example))
}

// prompter asks the user for values, and collects errors about missing ones.
type prompter struct {
	c     *cli
	in    *bufio.Reader
	wrong []error
}

// answer returns the value of a flag or, on a terminal, the user's answer. An empty answer means the fallback.
func (p *prompter) answer(said, flag, what, fallback string) string {
	if said != "" {
		return said
	}
	if f, ok := p.c.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		hint := ""
		if fallback != "" {
			hint = " [" + fallback + "]"
		}
		fmt.Fprintf(p.c.stdout, "%s%s: ", what, hint)
		line, _ := p.in.ReadString('\n')
		said = strings.TrimSpace(line)
	}
	if said = cmp.Or(said, fallback); said == "" {
		p.wrong = append(p.wrong, usagef("use %s: %s", flag, what))
	}
	return said
}

// write returns the text of the factory.toml, with its agents. A dry run prints it.
func (f *initFlags) write(c *cli, path string) (string, error) {
	var note string
	if f.User, note = agentsUser(os.Geteuid(), lookupUser); note != "" {
		printStep(c, "user", note)
	}
	var b strings.Builder
	if err := firstFile.Execute(&b, f); err != nil {
		return "", fmt.Errorf("cannot make %s: %w", path, err)
	}
	text := b.String()
	for _, a := range f.firstAgents() {
		a.TokenVar = agents.TokenVar(a.Name)
		var err error
		if text, err = hire.Register(text, a); err != nil {
			return "", fmt.Errorf("cannot make %s: %w", path, err)
		}
	}
	if _, err := file.Decode(path, text, c.lookupOrPlaceholder); err != nil {
		return "", fmt.Errorf("cannot make %s: %w", path, err)
	}
	if f.dryRun {
		printStep(c, "file", "would write "+path+":")
		fmt.Fprint(c.stdout, text)
	}
	return text, nil
}

// lookupUser finds a system account. Tests replace it, because their machine may have an account agent.
var lookupUser = user.Lookup

// agentsUser returns the agents' system account, for a supervisor that is root: docs/install.md and the image make it.
// Where it is missing, note says how to make it; agents then run as root, who can change the mode of secrets.env.
func agentsUser(euid int, lookup func(string) (*user.User, error)) (name, note string) {
	const account = "agent"
	if euid != 0 {
		return "", ""
	}
	if _, err := lookup(account); err != nil {
		return "", fmt.Sprintf("agents will run as root: for an account of their own, useradd --system --create-home "+
			"--shell /bin/bash %[1]s, then user = %[1]q in [factory]", account)
	}
	return account, ""
}

// publish writes the factory.toml. It never replaces one, and a kill leaves none or all of it.
func (f *initFlags) publish(c *cli, path string) error {
	err := writeNew(path, f.draft)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	f.draft = ""
	printStep(c, "file", "wrote "+path)
	return nil
}

func writeNew(path, text string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".factory-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(text)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()) // the file contains no tokens
	if err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, temp.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) && !exists(path) { // a file system without that flag
		err = os.Rename(temp.Name(), path)
	}
	return err
}

// firstFile is the template of a first factory.toml. hire adds the agents.
var firstFile = template.Must(template.New("factory.toml").Parse(`#:schema ` + schemaAddress + `
# A factory. factory.toml.example explains every key, and disinto check finds mistakes. A running supervisor reads the
# file again when it changes.

[forge]
url = "{{.URL}}"
token = "$FORGE_TOKEN"           # the supervisor's own account; the value is in secrets.env
repos = ["{{.Repo}}"]
{{with .User}}
[factory]
user = "{{.}}"                   # the agents' system account, which cannot read secrets.env
{{end}}{{if .API}}
# A paid API: agents share its slots. The key comes from the environment, such as $ANTHROPIC_API_KEY.
[threads.api]
backend = "anthropic"
max_concurrent = 1               # slots
overlap = true                   # agents share the slots, which do not limit sessions
max_sessions = 2                 # sessions at once; more agents need more
agents = []
{{end}}{{if .Local}}
# A llama-server: an agent keeps its slot, and the slot's cache, until its session ends.
[threads.llama]
backend = "local"
base_url = "{{.Local}}"
max_concurrent = 1               # = llama-server -np
overlap = false
agents = []
{{end}}
[roles.dev]                      # takes issues labelled backlog
cli = "{{.CLI}}"
sandbox_connect = "ephemeral"    # tests may connect to servers that they start on free ports

[roles.review]                   # reviews pull requests
on = "review"
cli = "{{.CLI}}"
`))

// schemaAddress is the URL of the schema of factory.toml, for editors.
const schemaAddress = "https://codeberg.org/johba/disinto/raw/branch/main/factory.schema.json"

// accounts returns the accounts that the factory needs, the supervisor's first, and checks all of them.
func (f *initFlags) accounts(ctx context.Context, c *cli) ([]*hire.Hire, error) {
	if f.draft == "" {
		if _, _, err := readConfig(f.configFile(), c.lookupOrPlaceholder); err != nil {
			return nil, err
		}
	}
	t, s, err := f.factory(ctx, c, "", false, nil)
	if err != nil {
		return nil, err
	}
	entries := f.entries(s)
	if t.problem != nil && hasTokens(c, t, s, entries) {
		printStep(c, "account", "each has a token; without an administrator its access is not repaired")
		return nil, nil
	}
	if t.Forge != nil {
		printStep(c, "check", "asking "+t.url+" ...")
	}
	word := f.name
	if word == "" && len(t.Repos) > 0 {
		word = t.Repos[0]
	}
	boss, err := f.boss(ctx, c, t, s, "", supervisorLogin(word))
	if err != nil {
		return nil, err
	}
	all := []*hire.Hire{boss}
	for _, e := range entries {
		all = append(all, f.agent(c, t, s, e))
	}
	problems := []error{t.problem}
	var foreign []*hire.Foreign
	for _, h := range all {
		h.Keep = true
		err := h.Check(ctx)
		if not, is := errors.AsType[*hire.Foreign](err); is {
			foreign = append(foreign, not)
			continue
		}
		problems = append(problems, err)
	}
	t.noteSecrets(c)
	return all, unrepeated(append(problems, notOurs(foreign)))
}

// notOurs joins the refusals of accounts into one, with init's remedy; nil without one.
func notOurs(all []*hire.Foreign) error {
	if len(all) == 0 {
		return nil
	}
	var logins []string
	for _, e := range all {
		logins = append(logins, e.Login+" (perhaps "+e.Whose+")")
	}
	return fmt.Errorf("cannot use accounts that exist, and of which this factory has no token: %s; with --name WORD "+
		"this factory gets accounts of its own, such as disinto-WORD, or use --adopt to work as these too, which adds a "+
		"token to each and changes neither passwords nor other tokens", strings.Join(logins, ", "))
}

// entries returns the agents to hire: those in the file or, if it has none, the first ones.
func (f *initFlags) entries(s hire.Survey) (all []hire.Entry) {
	for _, thread := range s.Threads {
		for _, name := range thread.Agents {
			all = append(all, hire.Entry{Name: name, Thread: thread.Name})
		}
	}
	if len(all) == 0 {
		return f.firstAgents()
	}
	return all
}

// hasTokens reports whether there is a token for the supervisor and for each agent.
func hasTokens(c *cli, t *hireTarget, s hire.Survey, entries []hire.Entry) bool {
	text, err := t.Secrets.Read()
	held := hire.Secrets(text)
	has := func(name string) bool { return err == nil && cmp.Or(held[name], c.getenv(name)) != "" }
	lacks := func(e hire.Entry) bool { return !has(s.TokenVar(e.Name)) }
	return has(s.SupervisorVar()) && !slices.ContainsFunc(entries, lacks)
}

// unrepeated joins errors, and drops the lines that an earlier one has too: a forge that does not answer is reported
// once, not for each account.
func unrepeated(errs []error) error {
	var all []error
	seen := make(map[string]bool)
	for _, err := range errs {
		for _, line := range errorLines(err) {
			if !seen[line] {
				all = append(all, errors.New(line))
			}
			seen[line] = true
		}
	}
	return errors.Join(all...)
}

// hire creates the accounts, their tokens and their access.
func (f *initFlags) hire(ctx context.Context, c *cli, all []*hire.Hire, path string) error {
	if !f.dryRun {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("cannot create the directory of %s: %w", path, err)
		}
		unlock, err := hire.Lock(filepath.Dir(path))
		if err != nil {
			return err
		}
		defer unlock()
	}
	for _, h := range all {
		printStep(c, "hire", h.Login)
		if err := h.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// firstAgents returns the agents of a first factory. With both kinds of backend, the local model writes and the API
// reviews; with the API alone, the API does both.
func (f *initFlags) firstAgents() (list []hire.Entry) {
	add := func(role, model, thread string) {
		name := role + "-" + slug(model)
		if f.name != "" {
			name += "-" + f.name
		}
		list = append(list, hire.Entry{Name: name, Role: role, Model: model, Thread: thread})
	}
	switch {
	case f.Local != "":
		add("dev", f.Model, "llama")
	case f.API != "":
		add("dev", f.API, "api")
	}
	if f.API != "" {
		add("review", f.API, "api")
	}
	return list
}

// slug returns the name of a model or a repository in a form that fits into an account's name.
func slug(model string) string {
	name := strings.Trim(slugDrops.ReplaceAllString(strings.ToLower(filepath.Base(model)), "-"), "-")
	return cmp.Or(strings.Trim(name[:min(len(name), 20)], "-"), "model")
}

var slugDrops = regexp.MustCompile(`[^a-z0-9]+`)
