//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/threads/file"
)

func hireCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "hire-an-agent NAME [ROLE] [--admin-token <pat>]", Args: cobra.MaximumNArgs(2),
		Short: "add an agent: account, token, profile, configuration",
		Long: `
Creates an account on the forge, with a token and write access to the
repositories. It also creates a private profile repository and adds the agent to
factory.toml, where it changes no other lines. A running supervisor uses the
agent without a restart.

The token goes to secrets.env beside factory.toml, or to $DISINTO_SECRETS; run
and check read it there. Only the file's owner can read it, and an agent gets
only its own token from it.

A second run changes the settings that its flags give, creates a new token, and
revokes the old one when the new one works. It also completes an interrupted
run.

If the account exists and the file has no token of it, it may be a person's or
another factory's, and the command stops. With --adopt the agent works as that
account too: it gets a token of its own, and keeps its password and all other
tokens. The forge makes that token only for an administrator's password.

All users of a machine can see passwords and tokens on a command line: use - and
give them on stdin, or use the environment.

--supervisor creates the supervisor's own account and its token instead, and
does not change factory.toml. NAME is by default the account of the token that
the factory has, else disinto-REPO, after the first repository.

Upstream's flags also work: --local-model URL selects the thread of that
inference server, or else sets the agent's own server; --formula FILE is stored
in the profile as formula.toml; --poll-interval SECONDS has no effect, because
threads have an interval.`,
		Example: `
  disinto hire-an-agent dev-qwen --thread llama
  disinto hire-an-agent review-sonnet review --model sonnet --dry-run`,
	}
	var h hireFlags
	h.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return h.run(cmd.Context(), c, args) }
	return cmd
}

// hireFlags has the flags of hire-an-agent.
type hireFlags struct {
	adminFlags
	role, model, thread string
	skills, repos       []string
	supervisor          bool
	// Upstream's flags.
	localModel, formula string
	pollInterval        int
}

func (h *hireFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&h.role, "type", "", "the agent's `ROLE` (default from its name)")
	flags.StringVar(&h.model, "model", "", "the `MODEL` that its program should use")
	flags.StringVar(&h.thread, "thread", "", "the agent's `THREAD` (default the only one)")
	flags.StringSliceVar(&h.skills, "skills", nil,
		"its `SKILLS`, separated by commas: it takes only\nissues whose skill labels are all among them")
	flags.StringSliceVar(&h.repos, "repo", nil,
		"give it access only to this `REPO`, owner/name\n(default all in the file)")
	flags.BoolVar(&h.supervisor, "supervisor", false, "create the supervisor's own account instead")
	h.adminFlags.flags(flags)
	adoptFlag(flags, &h.adopt)
	// The help mentions upstream's flags in its text only; its list has the flags for new users.
	flags.StringVar(&h.localModel, "local-model", "", "")
	flags.StringVar(&h.formula, "formula", "", "")
	flags.IntVar(&h.pollInterval, "poll-interval", 0, "")
	for _, name := range []string{"local-model", "formula", "poll-interval"} {
		flags.Lookup(name).Hidden = true
	}
}

// adminFlags has the flags shared by hire-an-agent, retire-an-agent and init.
type adminFlags struct {
	location
	admin   signIn
	secrets string
	dryRun  bool
	adopt   bool   // not of retire-an-agent
	draft   string // the factory.toml that init has not written yet; empty for others
}

func adoptFlag(flags *pflag.FlagSet, adopt *bool) {
	flags.BoolVar(adopt, "adopt", false, "use an account that exists, even if it is a\nperson's or another factory's")
}

func (d *adminFlags) flags(flags *pflag.FlagSet) {
	d.admin.flags(flags)
	flags.StringVar(&d.secrets, "secrets", "",
		"store tokens in this `FILE`\n(default $DISINTO_SECRETS, else secrets.env\nbeside factory.toml)")
	flags.BoolVar(&d.dryRun, "dry-run", false, "print the steps without taking them")
	d.location.flags(flags)
}

func (h *hireFlags) run(ctx context.Context, c *cli, args []string) error {
	if h.supervisor {
		return h.runSupervisor(ctx, c, args)
	}
	if len(args) == 0 {
		return usagef("usage: disinto hire-an-agent NAME [ROLE] [--admin-token <pat>] [flags]")
	}
	name, role := args[0], h.role
	if len(args) == 2 {
		if role = args[1]; h.role != "" && h.role != role {
			return usagef("cannot use two roles: %s and --type %s", role, h.role)
		}
	}
	f, s, err := h.factory(ctx, c, name, false, h.repos)
	if err != nil {
		return err
	}
	thread, threadErr := h.chooseThread(s, name)
	formula, formulaErr := h.readFormula()
	who := h.agent(c, f, s, hire.Entry{
		Name: name, Thread: thread, Role: role, Model: h.model, BaseURL: h.baseURL(s, thread),
	})
	who.Formula = formula
	if h.skills != nil {
		who.Entry.Skills = slices.Compact(slices.Sorted(slices.Values(h.skills)))
	}
	var roleErr error
	if who.Entry.Role == "" {
		roleErr = fmt.Errorf("cannot derive a role from the name %s: use --type ROLE", name)
	}
	// Return here, because the check would report the same mistakes again.
	if err := errors.Join(threadErr, roleErr); err != nil {
		return errors.Join(hire.CheckName(name), err, formulaErr, f.problem)
	}
	return h.perform(ctx, c, f, who, formulaErr)
}

// agent returns an agent to hire. Empty fields of the entry have the values of factory.toml.
func (d *adminFlags) agent(c *cli, f *hireTarget, s hire.Survey, e hire.Entry) *hire.Hire {
	e.Role, e.Model = cmp.Or(e.Role, s.Role(e.Name)), cmp.Or(e.Model, s.Model(e.Name))
	e.TokenVar, e.Skills = s.TokenVar(e.Name), s.Skills(e.Name)
	return &hire.Hire{
		Factory: *f.Factory, Login: s.Login(e.Name), Email: agents.NoReply(s.Login(e.Name), f.url), Entry: e,
		Adopt: d.adopt, Env: c.getenv(e.TokenVar),
	}
}

// boss returns the supervisor's account to hire. An empty login means that of its token, else the fallback.
func (d *adminFlags) boss(
	ctx context.Context, c *cli, f *hireTarget, s hire.Survey, login, fallback string,
) (*hire.Hire, error) {
	variable := s.SupervisorVar()
	text, err := f.Secrets.Read()
	if err != nil {
		return nil, err
	}
	for _, token := range []string{hire.Secrets(text)[variable], c.getenv(variable)} {
		if login == "" && token != "" && f.Forge != nil {
			if login, err = f.Forge.WhoAmI(ctx, token); errors.Is(err, forge.ErrUnavailable) {
				return nil, err
			}
		}
	}
	login = cmp.Or(login, fallback)
	return &hire.Hire{
		Factory: *f.Factory, Supervisor: true, Login: login, Email: agents.NoReply(login, f.url),
		Entry: hire.Entry{Name: login, TokenVar: variable}, Adopt: d.adopt, Env: c.getenv(variable),
	}, nil
}

// supervisorLogin returns the default name of the supervisor's account, after a repository or another word. Each
// factory has its own, because two supervisors with one account would take each other's work for their own.
func supervisorLogin(word string) string {
	if word == "" {
		return "disinto"
	}
	return "disinto-" + slug(word)
}

// perform checks everything, hires, and prints the next step.
func (h *hireFlags) perform(ctx context.Context, c *cli, f *hireTarget, who *hire.Hire, problem error) error {
	unlock, err := f.lock(h.dryRun)
	if err != nil {
		return err
	}
	defer unlock()
	if f.Forge != nil {
		printStep(c, "check", "asking "+f.url+" ...")
	}
	if err := errors.Join(who.Check(ctx), problem, f.problem); err != nil {
		return err
	}
	if err := who.Run(ctx); err != nil {
		return err
	}
	h.printNext(c, who, f)
	return nil
}

// runSupervisor creates the supervisor's account.
func (h *hireFlags) runSupervisor(ctx context.Context, c *cli, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if len(args) > 1 || h.role+h.model+h.thread+h.localModel+h.formula != "" || h.skills != nil || h.pollInterval != 0 {
		return usagef("--supervisor takes only a name: the supervisor has no role, model, thread or skills")
	}
	f, s, err := h.factory(ctx, c, cmp.Or(name, "disinto"), false, h.repos)
	if err != nil {
		return err
	}
	who, err := h.boss(ctx, c, f, s, name, supervisorLogin(strings.Join(f.Repos[:min(1, len(f.Repos))], "")))
	if err != nil {
		return err
	}
	return h.perform(ctx, c, f, who, nil)
}

// printNext prints the user's next step.
func (h *hireFlags) printNext(c *cli, who *hire.Hire, f *hireTarget) {
	if h.dryRun {
		fmt.Fprintln(c.stdout, "nothing was done: repeat without --dry-run")
		return
	}
	f.noteSecrets(c)
	if h.pollInterval > 0 {
		printStep(c, "note", "--poll-interval has no effect: set interval of [threads."+who.Entry.Thread+"]")
	}
	printStep(c, "next", "disinto check, then give an issue the label "+forge.LabelBacklog)
}

// noteSecrets says where run looks for the tokens, if that is not where they are.
func (o *hireTarget) noteSecrets(c *cli) {
	if !sameFile(o.Secrets.Path, o.read) {
		printStep(c, "note",
			"run reads "+o.read+", not this file: set $DISINTO_SECRETS, or add the tokens to run's environment")
	}
}

func sameFile(a, b string) bool {
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

func printStep(c *cli, step, text string) {
	fmt.Fprintf(c.stdout, "%-10s  %s\n", step, screen.Clean(text))
}

// chooseThread returns the agent's thread: from --thread, from factory.toml, or the only one that fits.
func (h *hireFlags) chooseThread(s hire.Survey, name string) (string, error) {
	if on := cmp.Or(h.thread, s.ThreadOf(name)); on != "" {
		return on, nil
	}
	on, err := s.ChooseThread(h.localModel)
	if err != nil {
		return "", fmt.Errorf("cannot choose a thread for %s: %w", name, err)
	}
	return on, nil
}

// baseURL returns the agent's own inference server; empty if it is the thread's.
func (h *hireFlags) baseURL(s hire.Survey, thread string) string {
	for _, t := range s.Threads {
		if t.Name == thread && strings.TrimRight(t.BaseURL, "/") == strings.TrimRight(h.localModel, "/") {
			return ""
		}
	}
	return h.localModel
}

func (h *hireFlags) readFormula() (string, error) {
	if h.formula == "" {
		return "", nil
	}
	raw, err := os.ReadFile(h.formula)
	if err != nil {
		return "", fmt.Errorf("cannot read the formula: %w", err)
	}
	return string(raw), nil
}

// hireTarget is the factory whose agents a command hires or retires.
type hireTarget struct {
	*hire.Factory
	url     string // of the forge
	read    string // the secrets file that run reads
	problem error  // why the forge cannot be used; the other checks still run
}

// factory reads the files and wires up the factory, for hiring and retiring.
func (d *adminFlags) factory(
	ctx context.Context, c *cli, agent string, retiring bool, repos []string,
) (*hireTarget, hire.Survey, error) {
	path := d.configFile()
	if d.draft != "" {
		return d.target(ctx, c, d.draft, agent, retiring, repos)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() && filepath.Ext(path) != ".toml" {
		return nil, hire.Survey{}, errors.New("cannot edit upstream's projects: first make a factory.toml from them: " +
			"disinto upstream > " + localConfig)
	}
	if !exists(path) {
		return nil, hire.Survey{}, cmp.Or(d.checkForge(ctx, c), noConfig(path))
	}
	raw, err := configText(path, c.lookup)
	if err != nil {
		return nil, hire.Survey{}, err
	}
	return d.target(ctx, c, raw, agent, retiring, repos)
}

// target wires up the factory with the text of its factory.toml.
func (d *adminFlags) target(
	ctx context.Context, c *cli, raw, agent string, retiring bool, repos []string,
) (*hireTarget, hire.Survey, error) {
	path := d.configFile()
	s, err := hire.ParseSurvey(raw)
	if err != nil {
		return nil, s, fmt.Errorf("cannot read %s: %w", path, err)
	}
	state := d.stateDir(c)
	settle := &configWaiter{agent: agent, retiring: retiring}
	o := &hireTarget{url: cmp.Or(s.ForgeURL, c.getenv("FORGE_URL")), read: secretsFile(path, c.lookup)}
	o.Factory = &hire.Factory{
		Repos: repos, Config: hire.File{Path: path, Backup: state, Draft: d.draft},
		Secrets: hire.File{Path: cmp.Or(d.secrets, o.read), Mode: 0o600, Backup: state},
		IsAgent: func(login string) bool { return slices.Contains(s.Logins(), login) },
		Validate: func(text string) error {
			_, err := file.Decode(path, text, c.lookupOrPlaceholder)
			return err
		},
		DryRun: d.dryRun, Report: func(step, text string) { printStep(c, step, text) },
		NotifySupervisor: settle.releaseItems, StillInUse: settle.stillInUse,
	}
	if len(repos) == 0 {
		o.Repos = allRepos(s, c.getenv("FORGE_REPO"))
	}
	settle.start(ctx, state)
	o.problem = d.signIn(c, o)
	return o, s, nil
}

// checkForge checks the forge that the environment names. Like upstream's command, it needs no factory.toml.
func (d *adminFlags) checkForge(ctx context.Context, c *cli) error {
	o := &hireTarget{url: c.getenv("FORGE_URL"), Factory: &hire.Factory{}}
	if o.url == "" {
		return nil
	}
	signIn := d.signIn(c, o)
	anyone, err := forgejo.NewAdmin(forgejo.AdminOptions{URL: o.url})
	if err == nil {
		err = anyone.Answers(ctx)
	}
	if err = cmp.Or(err, signIn); err != nil {
		return err
	}
	return o.Forge.Check(ctx, nil)
}

// signIn creates the administrator's client, if the forge and the administrator are known.
func (d *adminFlags) signIn(c *cli, o *hireTarget) error {
	var problems []error
	for _, repo := range o.Repos {
		if !forge.ValidRepo(repo) {
			problems = append(problems, fmt.Errorf("cannot give access to %q: write the repository as owner/name", repo))
		}
	}
	options, from, err := d.admin.options(c, o.url)
	if from != "" {
		printStep(c, "sign in", "Auth: PAT from "+from)
	}
	if err := errors.Join(append(problems, err)...); err != nil || o.url == "" { // Check reports a missing url
		return err
	}
	admin, err := forgejo.NewAdmin(options)
	if err == nil {
		o.Forge = admin
	}
	return err
}

// allRepos returns the repositories of the factory, from the same sources as file.Decode.
func allRepos(s hire.Survey, environ string) []string {
	if len(s.Repos) > 0 {
		return s.Repos
	}
	var repos []string
	for repo := range strings.SplitSeq(environ, ",") {
		if repo = strings.TrimSpace(repo); repo != "" {
			repos = append(repos, repo)
		}
	}
	return repos
}

// lock prevents concurrent changes of the factory's files.
func (o *hireTarget) lock(dryRun bool) (unlock func(), err error) {
	if dryRun {
		return func() {}, nil
	}
	return hire.Lock(filepath.Dir(o.Config.Path))
}

// lookupOrPlaceholder looks a variable up, and replaces missing ones by a placeholder. The user who hires need not have
// the supervisor's environment, except for the forge's address and repositories.
func (c *cli) lookupOrPlaceholder(name string) (string, bool) {
	if value, ok := c.lookup(name); ok && value != "" || name == "FORGE_URL" || name == "FORGE_REPO" {
		return value, ok
	}
	return placeholder, true
}
