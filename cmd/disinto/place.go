package main

import (
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// place says where a factory is on this machine: its factory.toml and its state directory. Every command about a
// factory has these two flags, so that status finds what run has started.
type place struct {
	config, state string
}

func (p *place) flags(flags *pflag.FlagSet) {
	flags.StringVar(&p.config, "config", "", "the configuration `FILE` (default ./factory.toml,\nelse "+systemConfig+")")
	flags.StringVar(&p.state, "state", "", "the state `DIR` (default $DISINTO_STATE_DIR, else\n"+
		"state in FILE, else "+systemState+" if\nwritable, else ./"+localState+")")
}

const (
	localConfig  = "factory.toml"
	systemConfig = "/etc/disinto/factory.toml"
	systemState  = "/var/lib/disinto"
	localState   = ".disinto"
)

// configFile is the path of factory.toml: that of the flag, else the one in the working directory, else the
// machine's, else, in upstream's checkout, the folder of its projects.
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

// stateDir is the state directory, which need not exist. It is absolute, since agents' programs get paths in it and
// work in other directories.
func (p *place) stateDir(c *cli) string {
	dir := p.state
	if dir == "" {
		dir = c.getenv("DISINTO_STATE_DIR")
	}
	if dir == "" {
		dir = stateInFile(p.configFile())
	}
	if dir == "" && writable(systemState) {
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

// stateInFile reads factory.state even from a file that is not valid: status has to find the supervisor that shows
// its mistakes.
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
