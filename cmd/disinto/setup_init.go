//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

func initCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "init", Args: cobra.NoArgs,
		Short: "set up a first factory: file, supervisor's account, two agents",
		Long: `
Writes a commented factory.toml, creates the accounts of the supervisor and of
the first two agents on the forge, and runs check. On a terminal it asks for the
values that no flag gives. It changes nothing that already exists: run it again
after a mistake, or to see that nothing is missing.

Like disinto hire-an-agent, it needs an administrator of the forge. An API
thread reviews the work of a local model; with --local alone, people review. To
use your own program, replace cli by command in factory.toml, then run init
again.`,
		Example: `
  disinto init
  disinto init --url https://forge.example.org --repo owner/name --api sonnet`,
	}
	flags := cmd.Flags()
	var f initFlags
	flags.StringVar(&f.URL, "url", "", "the forge's `URL` (default $FORGE_URL)")
	flags.StringVar(&f.Repo, "repo", "", "the `REPO` to work in, owner/name\n(default $FORGE_REPO)")
	flags.StringVar(&f.API, "api", "", "run agents on a paid API with this `MODEL`, such\nas sonnet")
	flags.StringVar(&f.Local, "local", "", "run agents on the llama-server at this `URL`")
	flags.StringVar(&f.Model, "local-model", "local", "the `MODEL` of that llama-server")
	flags.StringVar(&f.CLI, "cli", "claude", "the agents' `CLI`, one of\n"+strings.Join(agents.CLINames(), ", "))
	flags.BoolVar(&f.offline, "offline", false, "run the final check without network requests")
	f.adminFlags.flags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), c, args) }
	return cmd
}

// initFlags has the flags of init. The exported fields are those of its factory.toml.
type initFlags struct {
	adminFlags
	offline bool

	URL, Repo, API, Local, Model, CLI string
}

func (f *initFlags) run(ctx context.Context, c *cli, _ []string) error {
	path := f.configFile()
	if exists(path) {
		if err := f.checkFlags(path); err != nil {
			return err
		}
		printStep(c, "file", path+" exists and stays unchanged")
	} else {
		if err := f.promptMissing(c); err != nil {
			return err
		}
		if err := f.write(c, path); err != nil {
			return err
		}
	}
	if f.dryRun {
		printStep(c, "next", "nothing was done: repeat without --dry-run")
		return nil
	}
	if err := f.hire(ctx, c, path); err != nil {
		printStep(c, "next", "fix the problem, then run the same disinto init again: it continues from there")
		return err
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
	for _, value := range []string{f.URL, f.API, f.Local, f.Model} {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			p.wrong = append(p.wrong, usagef("cannot write %q into a factory.toml", value))
		}
	}
	return errors.Join(p.wrong...)
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

// write writes the factory.toml. It never replaces one.
func (f *initFlags) write(c *cli, path string) error {
	var text strings.Builder
	if err := firstFile.Execute(&text, f); err != nil {
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	if f.dryRun {
		printStep(c, "file", "would write "+path+":")
		fmt.Fprint(c.stdout, text.String())
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot create the directory of %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // the file contains no tokens
	if err == nil {
		_, err = file.WriteString(text.String())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	printStep(c, "file", "wrote "+path)
	return nil
}

// firstFile is the template of a first factory.toml. hire adds the agents.
var firstFile = template.Must(template.New("factory.toml").Parse(`#:schema ` + schemaAddress + `
# A factory. factory.toml.example explains every key, and disinto check finds mistakes. A running supervisor reads the
# file again when it changes.

[forge]
url = "{{.URL}}"
token = "$FORGE_TOKEN"           # the supervisor's own account; the value is in secrets.env
repos = ["{{.Repo}}"]
{{if .API}}
# A paid API: agents share its slots. The key comes from the environment, such as $ANTHROPIC_API_KEY.
[threads.api]
backend = "anthropic"
max_concurrent = 1               # concurrent requests
overlap = true
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

// hire creates the supervisor's account and the missing agents. With both kinds of backend, the local model writes and
// the API reviews; with the API alone, the API does both.
func (f *initFlags) hire(ctx context.Context, c *cli, path string) error {
	config, _, err := readConfig(path, c.lookupOrPlaceholder)
	if err != nil {
		return err
	}
	secrets, err := readSecrets(secretsFile(path, c.lookup))
	if err != nil {
		return err
	}
	has := func(name string) bool { return cmp.Or(hire.Secrets(secrets)[name], c.getenv(name)) != "" }
	if has("FORGE_TOKEN") {
		printStep(c, "account", "the supervisor already has a token")
	} else if err := (&hireFlags{adminFlags: f.adminFlags, supervisor: true, byInit: true}).run(ctx, c, nil); err != nil {
		return err
	}
	for _, a := range f.firstAgents(config) {
		if config.Agent(a.name) != nil && has(agents.TokenVar(a.name)) {
			printStep(c, "account", a.name+" is already hired")
			continue
		}
		h := &hireFlags{adminFlags: f.adminFlags, role: a.role, model: a.model, thread: a.thread, byInit: true}
		if err := h.run(ctx, c, []string{a.name}); err != nil {
			return err
		}
	}
	return nil
}

type firstAgent struct{ name, role, model, thread string }

// firstAgents returns the agents to hire: those in the file or, if it has none, a first dev agent and, with an API, a
// first review agent.
func (f *initFlags) firstAgents(config *threads.Config) []firstAgent {
	var list []firstAgent
	for i := range config.Agents {
		a := &config.Agents[i]
		list = append(list, firstAgent{a.Name, a.Roles[0], a.Model, a.Thread})
	}
	if len(list) > 0 {
		return list
	}
	if f.Local != "" {
		list = append(list, firstAgent{"dev-" + slug(f.Model), "dev", f.Model, "llama"})
	} else {
		list = append(list, firstAgent{"dev-" + slug(f.API), "dev", f.API, "api"})
	}
	if f.API != "" {
		list = append(list, firstAgent{"review-" + slug(f.API), "review", f.API, "api"})
	}
	return list
}

// slug returns a model's name in a form that fits into an account's name.
func slug(model string) string {
	name := strings.Trim(slugDrops.ReplaceAllString(strings.ToLower(filepath.Base(model)), "-"), "-")
	return cmp.Or(name[:min(len(name), 20)], "model")
}

var slugDrops = regexp.MustCompile(`[^a-z0-9]+`)
