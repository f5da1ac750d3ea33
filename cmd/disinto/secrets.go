//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads"
)

// secretsFile is the file of tokens that are not in the environment: hire-an-agent writes it, run and check read it. It
// stands beside factory.toml, so that it is mounted and backed up with it.
func secretsFile(config string, lookupEnv func(string) (string, bool)) string {
	if path, _ := lookupEnv("DISINTO_SECRETS"); path != "" {
		return path
	}
	return filepath.Join(filepath.Dir(filepath.Clean(config)), "secrets.env")
}

// readSecrets reads a secrets file; one that is not there is empty. A file that others than its owner can read is
// refused: agents could read it too.
func readSecrets(path string) (string, error) {
	f, err := plainfile.OpenNamed(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("cannot use %s: others can read it; chmod 600 %s", path, path)
	}
	raw, readErr := plainfile.Text(f, longestConfig)
	if err = cmp.Or(err, readErr); err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	return string(raw), nil
}

// longestConfig is how much is read of factory.toml and of the secrets beside it.
const longestConfig = 1 << 20

// checkOwner refuses a secrets file that belongs to an account of agents, which its mode does not keep out. Any other
// owner is the operator's business: a file that is mounted into a container belongs to an account outside of it.
func checkOwner(path string, c *threads.Config) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // there is none; what else is wrong with it, readSecrets says
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	for _, name := range accounts(c) {
		if u, err := user.Lookup(name); err == nil && u.Uid == strconv.Itoa(int(stat.Uid)) {
			return fmt.Errorf("cannot use %s: it belongs to %s, as whom agents run; chown root %s", path, name, path)
		}
	}
	return nil
}

// accounts are the system accounts that agents run under; empty is the supervisor's own.
func accounts(c *threads.Config) []string {
	users := []string{c.Factory.User}
	for i := range c.Agents {
		users = append(users, c.Agents[i].User)
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// withSecrets looks a variable up in a secrets file first, which is newer than the environment that a supervisor was
// started with. Agents' programs get nothing from it: they are started with that environment.
func withSecrets(secrets string, lookupEnv func(string) (string, bool)) func(string) (string, bool) {
	values := hire.Secrets(secrets)
	return func(name string) (string, bool) {
		if value := values[name]; value != "" {
			return value, true
		}
		return lookupEnv(name)
	}
}
