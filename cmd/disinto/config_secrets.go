//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads"
)

// placeholder stands for a variable that a command does not know. It is as long as listen_token has to be, and a url as
// [notify] wants one: hire-an-agent failed where only secrets.env had that url.
const placeholder = "generic+https://pretended-secret.invalid/"

// secretsFile returns the path of the secrets file, which hire-an-agent writes and run and check read. By default it is
// beside factory.toml, so that both are mounted and backed up together.
func secretsFile(config string, lookupEnv func(string) (string, bool)) string {
	if path, _ := lookupEnv("DISINTO_SECRETS"); path != "" {
		return path
	}
	return filepath.Join(filepath.Dir(filepath.Clean(config)), "secrets.env")
}

// readSecrets reads a secrets file. A missing file counts as empty. It refuses a file that other accounts can read,
// because agents could read it too.
func readSecrets(path string) (string, error) {
	text, err := secretsText(path)
	if err != nil {
		return "", err
	}
	return text, nil
}

// secretsText is readSecrets for check, which goes on with the text of a file that it refuses.
func secretsText(path string) (string, error) {
	f, err := plainfile.OpenNamed(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	raw, readErr := plainfile.Text(f, longestConfig)
	if err = cmp.Or(err, readErr); err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return string(raw), fmt.Errorf("cannot use %s: others can read it; chmod 600 %s", path, path)
	}
	return string(raw), nil
}

// closeSecrets takes a secrets file of this account from others, as an agent with the same account may have let them
// read it. It reports whether it did; readConfig refuses a file that stays open.
func closeSecrets(path string) bool {
	f, err := plainfile.OpenNamed(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && f.Chmod(0o600) == nil
}

// checkOwner refuses a secrets file that belongs to an account of agents, because its mode does not keep them out. It
// accepts any other owner: a file that is mounted into a container may belong to an account of the host.
func checkOwner(path string, c *threads.Config) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // readSecrets reports errors, and a missing file is not one
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	for _, name := range accounts(c) {
		if u, err := user.Lookup(name); err == nil && u.Uid == strconv.Itoa(int(stat.Uid)) {
			return fmt.Errorf("cannot use %s: it belongs to %s, an account of agents; chown root %s", path, name, path)
		}
	}
	return nil
}

// accounts returns the system accounts of agents; an empty name means the supervisor's own.
func accounts(c *threads.Config) []string {
	users := []string{c.Factory.User}
	for i := range c.Agents {
		users = append(users, c.Agents[i].User)
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// withSecrets returns a lookup that searches the secrets file before the environment, because the file may be newer.
// Agents' programs get only what the environment has, too: see newerVars.
func withSecrets(secrets string, lookupEnv func(string) (string, bool)) func(string) (string, bool) {
	values := hire.Secrets(secrets)
	return func(name string) (string, bool) {
		if value := values[name]; value != "" {
			return value, true
		}
		return lookupEnv(name)
	}
}

// newerVars returns the variables of the environment for which the secrets file has another value, sorted by name. So a
// key that sessions inherit can be changed without a restart, and the file gives them no variable that they lacked.
func newerVars(secrets string, lookupEnv func(string) (string, bool)) (list []agents.Var) {
	values := hire.Secrets(secrets)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if old, there := lookupEnv(name); there && values[name] != "" && values[name] != old {
			list = append(list, agents.Var{Name: name, Value: agents.Secret(values[name])})
		}
	}
	return list
}
