//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/hire"
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
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("cannot use %s: others can read it; chmod 600 %s", path, path)
	}
	raw, readErr := os.ReadFile(path)
	if err = cmp.Or(err, readErr); err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	return string(raw), nil
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
