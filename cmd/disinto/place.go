package main

import (
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// place is where a factory lives on this machine: its factory.toml and its state directory. Every command that
// speaks of a factory has these two flags, so that what status asks is what run started.
type place struct {
	config, state string
}

func (p *place) flags(flags *pflag.FlagSet) {
	flags.StringVar(&p.config, "config", "", "read this `FILE` (default ./factory.toml, else\n"+systemConfig+")")
	flags.StringVar(&p.state, "state", "", "keep state in `DIR` (default $DISINTO_STATE_DIR,\n"+
		"else what FILE says, else "+systemState+"\nif writable, else ./"+localState+")")
}

const (
	localConfig  = "factory.toml"
	systemConfig = "/etc/disinto/factory.toml"
	systemState  = "/var/lib/disinto"
	localState   = ".disinto"
)

// configFile is the file that is read. One beside the user wins over the machine's, and both over upstream's projects,
// whose folder is the answer where upstream's checkout is the working directory.
func (p *place) configFile() string {
	switch {
	case p.config != "":
		return p.config
	case exists(localConfig):
		return localConfig
	case exists(systemConfig):
		return systemConfig
	}
	if projects, _ := filepath.Glob(filepath.Join(projectsDir, "*.toml")); len(projects) > 0 {
		return projectsDir
	}
	return localConfig
}

// stateDir is the state directory, absolute where that can be found out: programs are started with paths in it and
// work elsewhere. It does not create it.
func (p *place) stateDir(c *cli) string {
	dir := p.state
	if dir == "" {
		dir = c.getenv("DISINTO_STATE_DIR")
	}
	if dir == "" {
		dir = stateInFile(p.configFile())
	}
	if dir == "" && unix.Access(systemState, unix.W_OK) == nil {
		dir = systemState
	}
	if dir == "" {
		dir = localState
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// stateInFile reads the one key that even a file with mistakes elsewhere can answer: status must find a supervisor
// that shows exactly such mistakes.
func stateInFile(path string) string {
	var file struct {
		Factory struct{ State string }
	}
	if _, err := toml.DecodeFile(path, &file); err != nil {
		return ""
	}
	return file.Factory.State
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
