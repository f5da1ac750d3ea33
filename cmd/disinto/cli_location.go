package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// location is the location of a factory on this machine: its factory.toml and its state directory. Every command for a
// factory has these two flags, so that status, for example, finds the supervisor that run started.
type location struct {
	config, state string
}

func (p *location) flags(flags *pflag.FlagSet) {
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

// projectsDir is the directory of upstream's configuration in its checkout, with one file per repository.
const projectsDir = "projects"

// configFile returns the path of the configuration: that of the flag, else factory.toml in the working directory, else
// the machine's, else, in upstream's checkout, the directory of its projects.
func (p *location) configFile() string {
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

// stateDir returns the state directory, which need not exist. The path is absolute, because agents' programs get paths
// in it and work in other directories.
func (p *location) stateDir(c *cli) string {
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

// stateGiven reports whether a flag or the environment chooses the state directory, whatever the file says.
func (p *location) stateGiven(c *cli) bool {
	return p.state != "" || c.getenv("DISINTO_STATE_DIR") != ""
}

// longestConfig limits the size of factory.toml and of the secrets file, in bytes.
const longestConfig = 1 << 20

// stateInFile reads [factory] state even from an invalid file: status must find the supervisor that reports the file's
// mistakes, and run must not start a second one in another directory.
func stateInFile(path string) string {
	text, err := plainfile.ReadNamed(path, longestConfig)
	if err != nil {
		return ""
	}
	if state, err := stateIn(string(text)); err == nil {
		return state
	}
	within := false
	for line := range strings.Lines(string(text)) {
		key := strings.TrimSpace(line)
		if strings.HasPrefix(key, "[") {
			within = strings.HasPrefix(key, "[factory]")
		}
		if state, err := stateIn("[factory]\n" + line); within && err == nil && state != "" {
			return state
		}
	}
	return ""
}

func stateIn(text string) (string, error) {
	var file struct {
		Factory struct{ State string }
	}
	_, err := toml.Decode(text, &file)
	return file.Factory.State, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// longestJournal limits a journal, in bytes. The supervisor compacts it long before that size.
const longestJournal = 512 << 20

// openJournal opens a journal, and refuses one that is too long.
func openJournal(path string) (*os.File, error) {
	file, err := plainfile.OpenNamed(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.Size() > longestJournal {
		file.Close()
		return nil, fmt.Errorf("%s: longer than %d bytes", path, longestJournal)
	}
	return file, nil
}
