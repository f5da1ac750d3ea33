package session

import (
	"os"
	"path/filepath"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Credential finds what a CLI would authenticate with at a paid backend, in the environment of a session: the name of a
// variable, or the path of a file. If there is none, it returns the variables that the CLI checks. A CLI without an
// adapter is an error.
func Credential(cli string, environ []string) (found string, wanted []string, err error) {
	a, err := findAdapter(cli)
	if err != nil {
		return "", nil, err
	}
	vars, files := a.credentials()
	for _, name := range vars {
		if agents.Getenv(environ, name) != "" {
			return name, nil, nil
		}
	}
	for _, path := range files {
		if variable, rest, ok := strings.Cut(path, "/"); ok && strings.HasPrefix(variable, "$") {
			dir := agents.Getenv(environ, variable[1:])
			if dir == "" {
				continue
			}
			path = filepath.Join(dir, rest)
		} else {
			path = filepath.Join(agents.Getenv(environ, "HOME"), path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil, nil
		}
	}
	return "", vars, nil
}
