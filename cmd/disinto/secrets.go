package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/hire"
)

// secretsFile is where the tokens are that are not in the environment: hire-an-agent writes them there, run and check
// read them. It stands beside factory.toml, so that whoever mounts or saves the one has the other.
func secretsFile(config string, lookupEnv func(string) (string, bool)) string {
	if path, _ := lookupEnv("DISINTO_SECRETS"); path != "" {
		return path
	}
	return filepath.Join(filepath.Dir(filepath.Clean(config)), "secrets.env")
}

// readSecrets reads a secrets file; one that is not there is empty. Where others than its owner can read it, agents can.
func readSecrets(path string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("cannot use %s: others can read it; chmod 600 %s", path, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the secrets: %w", err)
	}
	return string(raw), nil
}

// withSecrets looks a variable up in a secrets file first: what was written there is newer than the environment that a
// supervisor was started with. Programs get none of it from there, as it is not in the environment they are started with.
func withSecrets(secrets string, lookupEnv func(string) (string, bool)) func(string) (string, bool) {
	values := hire.Secrets(secrets)
	return func(name string) (string, bool) {
		if value := values[name]; value != "" {
			return value, true
		}
		return lookupEnv(name)
	}
}
