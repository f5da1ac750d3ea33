package supervisor

import (
	"cmp"
	"path/filepath"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// maxServiceLog is the limit of a service's log without max_log, because a service may run forever.
const maxServiceLog = 64 << 20

// ServiceCommand is one run of a service's command, and where it happens.
type ServiceCommand struct {
	Instance, RunID string
	Command         []string
	Log             string // name of its log, without .log
	StateDir        string
	Environ         []string // the supervisor's own environment
}

// ServiceJob returns the job of a service's command.
func ServiceJob(cfg *threads.Config, x *threads.Service, c ServiceCommand) agents.Job {
	dir := serviceFolder(c.StateDir, x.Name)
	j := agents.Job{
		RunID: c.RunID, Instance: c.Instance, Service: x.Name, Command: c.Command, Home: filepath.Join(dir, "home"),
		User: x.User, OwnUser: cfg.OnlyUser(x.User), Limits: x.Limits, LogPath: filepath.Join(dir, "log", c.Log+".log"),
		MaxLog: cmp.Or(cfg.Factory.MaxLog, maxServiceLog), Grace: cmp.Or(x.Grace, cfg.Factory.StopGrace),
		StopSignal: x.StopSignal,
	}
	j.Dir = cmp.Or(x.Cwd, j.Home)
	j.Env = agents.ServiceEnviron(cfg.Environ(c.Environ), &j, cfg.Secrets, x.Env)
	return j
}

// serviceFolder returns the folder of a service's home and log.
func serviceFolder(stateDir, service string) string {
	return filepath.Join(stateDir, "services", service)
}

// ServiceLog returns the path of a service's log.
func ServiceLog(stateDir, service string) string {
	return filepath.Join(serviceFolder(stateDir, service), "log", "output.log")
}
