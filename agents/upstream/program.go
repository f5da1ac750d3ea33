package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// Program is one of upstream's scripts in one session. Set all fields.
type Program struct {
	Root    string // upstream's checkout
	Script  string // below Root, such as dev/dev-agent.sh
	Args    []string
	Environ []string // of this process: the environment contract
	// Private says that the script gets its own /tmp. Otherwise its lock files get unique names.
	Private bool
	Run     func(ctx context.Context, cmd agents.Cmd) error // runs git
	Out     io.Writer
}

// Script is a command to start.
type Script struct {
	Argv []string
	Dir  string
	Env  []string
	Tmp  string // the agent's folder for the files that upstream puts into /tmp
	// Waits says that the session lasts until all processes of the script have ended: upstream's pollers exit earlier.
	Waits bool
}

// Prepare provides what upstream's entrypoint provided to a script, and returns how to start it. It can be repeated.
func (p *Program) Prepare(ctx context.Context) (*Script, error) {
	for _, name := range []string{"HOME", "FORGE_URL", "FORGE_TOKEN", "DISINTO_REPO", "DISINTO_AGENT"} {
		if p.getenv(name) == "" {
			const hint = "a supervisor starts this program, see disinto help upstream"
			return nil, fmt.Errorf("cannot start: $%s is not set (%s)", name, hint)
		}
	}
	path, err := p.find()
	if err != nil {
		return nil, err
	}
	project, err := p.project()
	if err != nil {
		return nil, err
	}
	s := &Script{
		Argv: append([]string{"bash", path}, p.Args...), Dir: p.Root, Tmp: filepath.Join(p.getenv("HOME"), "tmp"),
		Waits: strings.HasSuffix(p.Script, "-poll.sh"),
	}
	if len(p.Args) == 0 { // scripts without an item expect the project
		s.Argv = append(s.Argv, project.Path)
	}
	if err := os.MkdirAll(s.Tmp, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make a folder for upstream's files: %w", err)
	}
	s.Env = p.environ(project, s.Tmp)
	p.createActiveFile()
	p.removeLocks(s)
	return s, p.clone(ctx, s, project)
}

func (p *Program) getenv(name string) string { return agents.Getenv(p.Environ, name) }

// find returns the path of the script, which must be below Root.
func (p *Program) find() (string, error) {
	if !filepath.IsLocal(p.Script) {
		return "", fmt.Errorf("cannot run %q: want a path below %s, such as dev/dev-agent.sh", p.Script, p.Root)
	}
	path := filepath.Join(p.Root, p.Script)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("cannot run %s: %w; --root says where upstream's checkout is", p.Script, err)
	}
	return path, nil
}

// project returns the project of the session's repository.
func (p *Program) project() (*Project, error) {
	dir, repo := filepath.Join(p.Root, "projects"), p.getenv("DISINTO_REPO")
	all, err := ReadProjects(dir)
	for _, project := range all {
		if strings.EqualFold(project.Repo, repo) {
			return project, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("no file in %s is for %s", dir, repo), err)
}

// ReadProjects reads the projects of a folder, sorted by file. With the error it returns the readable ones.
func ReadProjects(dir string) ([]*Project, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		return nil, err
	}
	var all []*Project
	var wrong mistakes
	for _, path := range paths {
		project, err := readProject(path)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		all = append(all, project)
	}
	if len(paths) == 0 {
		wrong.add("%s has no *.toml in it: copy one of upstream's examples there", dir)
	}
	return all, errors.Join(wrong...)
}

// longestProject is the maximum size of a project's file, in bytes.
const longestProject = 1 << 20

func readProject(path string) (*Project, error) {
	text, err := plainfile.ReadNamed(path, longestProject)
	if err != nil {
		return nil, fmt.Errorf("cannot read a project: %w", err)
	}
	return ParseProject(path, string(text))
}

// environ adds the variables that upstream's scripts expect to the contract. DISINTO_CONTAINER makes the scripts prefer
// these variables to their files, so that two projects do not get mixed up.
func (p *Program) environ(project *Project, tmp string) []string {
	home, token := p.getenv("HOME"), p.getenv("FORGE_TOKEN")
	name := project.Name
	vars := []string{
		"DISINTO_CONTAINER=1",
		"USER=" + cmp.Or(p.getenv("USER"), "agent"),
		"PROJECT_TOML=" + project.Path,
		"PROJECT_REPO_ROOT=" + filepath.Join(home, "repos", project.Name),
		"OPS_REPO_ROOT=" + filepath.Join(home, "repos", project.Name+"-ops"),
		"PRIMARY_BRANCH=" + project.Branch,
		"WOODPECKER_REPO_ID=" + project.CI,
		"FORGE_API_BASE=" + strings.TrimSuffix(p.getenv("FORGE_API"), "/repos/"+p.getenv("DISINTO_REPO")),
		"FORGE_WEB=" + p.getenv("FORGE_URL") + "/" + project.Repo,
		"FORGE_REVIEW_TOKEN=" + token, // for the verdict; all other tokens default to FORGE_TOKEN
		"CLAUDE_CONFIG_DIR=" + cmp.Or(p.getenv("CLAUDE_CONFIG_DIR"), filepath.Join(home, ".claude")),
	}
	if !p.Private {
		name += "-" + p.getenv("DISINTO_AGENT")
		vars = append(vars, "TMPDIR="+tmp)
	}
	vars = append(vars, "PROJECT_NAME="+name)
	if project.OpsRepo != "" {
		vars = append(vars, "FORGE_OPS_REPO="+project.OpsRepo)
	}
	if p.Script == "review/review-pr.sh" && p.getenv("CLAUDE_TIMEOUT") == "" {
		vars = append(vars, "CLAUDE_TIMEOUT=900") // the script's own default, which env.sh overrides with 7200
	}
	return agents.Setenv(p.Environ, slices.Concat(vars, p.model(project), p.git()))
}

// model sets the model of Claude Code. The scripts of some roles request sonnet or opus by name, even on a local
// server.
func (p *Program) model(project *Project) []string {
	model := p.getenv("DISINTO_MODEL")
	var vars []string
	if model != "" {
		vars = append(vars, "CLAUDE_MODEL="+model)
	}
	if p.getenv("DISINTO_BACKEND") != "local" {
		return vars
	}
	key, compact := "sk-no-key-required", 0
	for _, a := range project.Agents {
		if a.Name == p.getenv("DISINTO_AGENT") {
			key, compact = cmp.Or(a.APIKey, key), a.Compact
		}
	}
	if compact > 0 {
		vars = append(vars, fmt.Sprintf("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=%d", compact))
	}
	if model != "" {
		for _, name := range []string{"SONNET", "OPUS", "HAIKU"} {
			vars = append(vars, "ANTHROPIC_DEFAULT_"+name+"_MODEL="+model)
		}
	}
	return append(vars,
		"ANTHROPIC_BASE_URL="+strings.TrimSuffix(strings.TrimRight(p.getenv("DISINTO_BASE_URL"), "/"), "/v1"),
		"ANTHROPIC_API_KEY="+key, "CLAUDE_CODE_ATTRIBUTION_HEADER=0", "CLAUDE_CODE_ENABLE_TELEMETRY=0")
}

// git passes the agent's token to every git process below us in the environment, for the forge's address only. The
// token is then in no address, argument or file. The clones can belong to another uid, from an earlier run of the
// factory.
func (p *Program) git() []string {
	return []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=http." + p.getenv("FORGE_URL") + "/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: token " + p.getenv("FORGE_TOKEN"),
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
	}
}

// createActiveFile creates the file without which upstream's pollers and scheduled scripts exit at once. Upstream's
// entrypoint creates it for every role. Here the supervisor decides which agents work, and `disinto pause` is the
// switch.
func (p *Program) createActiveFile() {
	role, _, _ := strings.Cut(p.Script, "/")
	if role == "review" {
		role = "reviewer"
	}
	path := filepath.Join(p.Root, "state", "."+role+"-active")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		if _, err := os.Stat(path); err != nil {
			fmt.Fprintf(p.Out, "disinto: upstream's %s may consider itself switched off: %v\n", role, err)
		}
		return
	}
	file.Close()
}

// removeLocks removes the agent's lock files. They are stale, because an agent runs one session at a time and no
// process of the previous session is left. But the pid in such a file may now be another program's, and the script
// would exit with 0.
func (p *Program) removeLocks(s *Script) {
	dir, pattern := s.Tmp, "*.lock"
	if !p.Private {
		dir, pattern = os.TempDir(), "*-"+p.getenv("DISINTO_AGENT")+"*.lock"
	}
	locks, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, lock := range locks {
		_ = os.Remove(lock)
	}
}

// clone makes the agent's own clones, in which upstream's scripts create their worktrees. In a clone shared by agents,
// one would check out the branch on which another works. Not every project has an operations repository.
func (p *Program) clone(ctx context.Context, s *Script, project *Project) error {
	dir := filepath.Join(p.getenv("HOME"), "repos", project.Name)
	if err := p.cloneOne(ctx, s, project.Repo, dir); err != nil {
		return fmt.Errorf("cannot clone %s: %w", project.Repo, err)
	}
	if project.OpsRepo != "" {
		if err := p.cloneOne(ctx, s, project.OpsRepo, dir+"-ops"); err != nil {
			fmt.Fprintf(p.Out, "disinto: cannot clone %s, working without it: %v\n", project.OpsRepo, err)
		}
	}
	return nil
}

func (p *Program) cloneOne(ctx context.Context, s *Script, repo, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return nil
	}
	half := dir + ".cloning" // an interrupted clone must not pass for a complete one
	if err := errors.Join(os.RemoveAll(half), os.MkdirAll(filepath.Dir(dir), 0o700)); err != nil {
		return err
	}
	url := p.getenv("FORGE_URL") + "/" + repo + ".git"
	argv := []string{"git", "clone", "--quiet", url, half}
	err := p.Run(ctx, agents.Cmd{Argv: argv, Dir: filepath.Dir(dir), Env: s.Env, Stdout: p.Out, Stderr: p.Out})
	if err != nil {
		return err
	}
	return os.Rename(half, dir)
}
