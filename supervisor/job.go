package supervisor

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
	"codeberg.org/johba/disinto/forge"
)

// job returns a session's job for the executor. Its paths consist of configured names and numbers only.
func (rn *sessionRunner) job(x *session) (agents.Job, error) {
	argv, err := x.role.Argv(agents.CommandData{
		Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Issue: x.Item.Chain.Number, Kind: x.Item.Kind,
		Agent: x.Agent, Role: x.Role, Thread: x.Thread, Model: x.agent.Model,
	})
	if err != nil {
		return agents.Job{}, err
	}
	argv = x.prompted(argv)
	j := x.config.Placed(&x.agent)
	j.User, j.Root = x.config.UserOf(&x.agent, &x.role), x.role.Root
	j.RunID, j.Instance, j.Role, j.Kind, j.Priority = x.RunID, rn.Instance(), x.Role, x.Item.Kind, x.Item.Priority
	j.Repo, j.Number, j.Issue, j.Claim = x.Item.Ref.Repo, x.Item.Ref.Number, x.Item.Chain.Number, x.commit
	j.Command = argv
	SetFolders(&j, &x.role, rn.stateDir, workspaceName(x))
	j.Workspace, j.HomeKey = path.Join(x.Agent, workspaceName(x)), x.Agent
	j.MaxLog = x.config.Factory.MaxLog
	j.Spent = func(u agents.Usage) { rn.spent(x, u) }
	j.Doing = func(now agents.Doing) { rn.doing(x, now) }
	j.Timeout, j.Stall = x.role.Timeout, x.role.Stall
	if x.thread.Backend.Server() {
		j.BackendURL = cmp.Or(x.agent.BaseURL, x.thread.BaseURL)
	}
	if x.thread.Executor != "" {
		j.Place = rn.state.chain(x.Item.Chain).Place
	}
	rn.sandbox(x, &j)
	env := x.environ(&j)
	if x.Rung > 0 {
		env.Tried = rn.state.tried(x.Item.Chain)
	}
	env.Left = rn.state.left(x)
	if rn.forgeAPI != nil {
		env.ForgeAPI = rn.forgeAPI(env.ForgeURL, env.Repo)
	}
	if rn.traceParent != nil {
		env.TraceParent = rn.traceParent(x.Item.Chain, x.RunID)
	}
	j.Env, j.Secrets = env.Apart(agents.Environ(x.config.Environ(rn.environ), env))
	if password := proxyPassword(x.config, x.RunID); password != "" && j.Sandbox.Egress != nil {
		j.Secrets = append(j.Secrets, agents.ProxyPassword+"="+password)
	}
	return j, nil
}

// prompted returns the command with the folder of prompts that the repository has; unchanged without one.
func (x *session) prompted(argv []string) []string {
	r := x.config.RepoTable(x.Item.Ref.Repo)
	if r == nil || r.Prompts == "" || !x.role.BuiltIn() || len(argv) == 0 {
		return argv
	}
	return agents.WithPrompts(argv, r.Prompts)
}

// SetFolders sets the folders and files of a session: its home, its working directory, its log and its result, and with
// a sandbox its temporary files. The job has the agent and the run already.
func SetFolders(j *agents.Job, r *agents.Role, stateDir, workspace string) {
	place := func(kind, name string) string { return filepath.Join(stateDir, kind, j.Agent, name) }
	j.Home, j.LogPath = place("home", ""), logPath(stateDir, j.Agent, j.RunID)
	j.ResultPath = place("results", j.RunID+".json")
	j.Dir = cmp.Or(r.Cwd, place("work", workspace)) // cwd is used as the workspace too
	if r.Sandbox.On() {
		j.Tmp = place("tmp", "")
	}
}

// workspaceName returns the same name for every session of an agent on a chain, so that rework finds the
// implementation's files: owner_repo_12, or owner_repo_role for scheduled work. Only the first and the last _
// separate. A _ in an owner or a role becomes ~, which no name contains, or a_b/c and a/b_c would share a folder.
func workspaceName(x *session) string {
	owner, repo, _ := strings.Cut(x.Item.Chain.Repo, "/")
	what := strconv.FormatInt(x.Item.Chain.Number, 10)
	if x.Item.Chain.Number == 0 {
		what = apart(x.Role)
	}
	return apart(owner) + "_" + repo + "_" + what
}

func apart(name string) string { return strings.ReplaceAll(name, "_", "~") }

// chainOf parses a workspace's name. Scheduled work has no chain.
func chainOf(workspace string) (chain forge.Ref, ok bool) {
	owner, rest, _ := strings.Cut(workspace, "_")
	cut := max(strings.LastIndexByte(rest, '_'), 0)
	number, err := strconv.ParseInt(strings.TrimPrefix(rest[cut:], "_"), 10, 64)
	chain = forge.Ref{Repo: strings.ReplaceAll(owner, "~", "_") + "/" + rest[:cut], Number: number}
	return chain, err == nil && number > 0 && forge.ValidRepo(chain.Repo)
}

func (x *session) environ(j *agents.Job) *agents.Env {
	return &agents.Env{
		RunID: x.RunID, Agent: x.agent, Role: x.role, Kind: j.Kind, Repo: j.Repo, Number: j.Number, Attempt: x.Attempt,
		Cause: string(x.Item.Cause), Comments: x.Item.Comments,
		Thread: x.Thread, Backend: x.thread.Backend, BaseURL: x.thread.BaseURL, Slot: x.Slot,
		EnvAllow: x.thread.EnvAllow, EnvDeny: x.thread.EnvDeny, Vars: x.thread.Vars,
		ForgeURL: strings.TrimSuffix(x.config.Forge.URL, "/"), Home: j.Home, User: j.User,
		Workspace: j.Dir, ResultPath: j.ResultPath, Tmp: j.Tmp, Egress: j.Sandbox.Egress,
		Room:    x.config.Room(j.Repo),
		ReadAll: x.config.Forge.ReadersAll, MaxUnseen: x.config.Forge.MaxUnseen, Secrets: x.config.Secrets,
	}
}

// sandbox sets the job's sandbox: the role's, plus write access to all of the agent's workspaces, because the built-in
// program deletes old ones, and the ports of the forge, the model and the trace collector. It hides our own secrets.
func (rn *sessionRunner) sandbox(x *session, j *agents.Job) {
	j.Sandbox = x.role.Sandbox
	if !j.Sandbox.On() {
		return
	}
	j.Sandbox.Write = append(slices.Clone(j.Sandbox.Write), filepath.Join(rn.stateDir, "work", x.Agent))
	j.Sandbox.Open(x.config.Forge.URL, x.thread.BaseURL, x.agent.BaseURL, rn.collector)
	hosts, setup := x.config.Egress(&x.role, &x.agent, &x.thread, j.Repo)
	if word := egress.WordOf(rn.collector); word != "" && hosts != nil {
		hosts = append(hosts, word)
	}
	j.Sandbox.Egress, j.Sandbox.SetupEgress = hosts, nil
	if x.role.BuiltIn() && j.Kind.Writes() {
		j.Sandbox.SetupEgress = setup
	}
	j.Sandbox.Taken = x.config.TakenPorts()
	j.Sandbox.Hide = append(slices.Clone(rn.hide), rn.stateDir)
	if key := x.config.Nomad.ClientKey; key != "" {
		j.Sandbox.Hide = append(j.Sandbox.Hide, key)
	}
	if x.role.BuiltIn() {
		j.Sandbox.Programs = append(j.Sandbox.Programs, x.role.Program(j.Command))
	}
}
