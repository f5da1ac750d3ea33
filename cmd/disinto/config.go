//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// readConfig reads a factory.toml, or upstream's projects, and the secrets file beside it. Each mistake is one line of
// the error. text is the text of both, for changed.
func readConfig(path string, lookupEnv func(string) (string, bool)) (config *threads.Config, text string, err error) {
	secretsPath := secretsFile(path, lookupEnv)
	secrets, secretsErr := readSecrets(secretsPath)
	newer := newerVars(secrets, lookupEnv)
	lookupEnv = withSecrets(secrets, lookupEnv)
	written, err := configText(path, lookupEnv)
	if err = errors.Join(secretsErr, err); err != nil { // without the secrets, each token would seem to be missing
		return nil, bothTexts(written, secrets), err
	}
	config, err = file.Decode(path, written, lookupEnv)
	if config != nil {
		config.Newer = newer
		err = errors.Join(checkOwner(secretsPath, config), err)
	}
	if err == nil {
		err = placeBuiltin(config, path)
	}
	return config, bothTexts(written, secrets), err
}

// noConfig returns the error for a missing factory.toml. In a container the mount is probably missing.
func noConfig(path string) error {
	if path != localConfig {
		return fmt.Errorf("cannot read %s: there is no such file; write it, or use another --config", path)
	}
	here, err := filepath.Abs(path)
	if err != nil {
		here = path
	}
	example := ""
	if exists(imageExample) {
		example = ", after the example " + imageExample
	}
	return fmt.Errorf("cannot read the configuration: there is neither %s nor %s; write one%s, "+
		"mount it there, or use --config", here, systemConfig, example)
}

// imageExample is the path of factory.toml.example in the image.
const imageExample = "/usr/local/share/doc/disinto/factory.toml.example"

func bothTexts(config, secrets string) string { return config + "\x00" + secrets }

// promptsDir is the directory beside factory.toml whose templates replace built-in ones of the same name.
const promptsDir = "prompts"

// placeBuiltin sets this program, the built-in agent, as the program of the roles with a cli or a prompt.
func placeBuiltin(config *threads.Config, path string) error {
	for i := range config.Roles {
		r := &config.Roles[i]
		if !r.BuiltIn() || len(r.Command) == 0 { // the file is wrong
			continue
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("cannot find the program of role %s: %w", r.Name, err)
		}
		r.Command[0] = self
		dir, err := filepath.Abs(filepath.Join(filepath.Dir(path), promptsDir))
		if err != nil {
			return fmt.Errorf("cannot find the prompts: %w", err)
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			r.Command = agents.WithPrompts(r.Command, dir)
		}
	}
	return placePrompts(config, path)
}

// placePrompts finds the folders of prompts that repositories have, relative to factory.toml.
func placePrompts(config *threads.Config, path string) error {
	for i := range config.Repos {
		r := &config.Repos[i]
		if r.Prompts == "" {
			continue
		}
		dir := r.Prompts
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(path), dir)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("cannot find the prompts of %s: %w", r.Name, err)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s: repos.%q.prompts: is %q, and %s is no folder", path, r.Name, r.Prompts, dir)
		}
		r.Prompts = dir
	}
	return nil
}

// describe summarises a configuration in one line.
func describe(c *threads.Config) string {
	return fmt.Sprintf("%s, %s, %s on %s", control.Count(len(c.Threads), "thread"), control.Count(len(c.Agents), "agent"),
		strings.Join(c.Forge.Repos, " "), c.Forge.URL)
}

// removedKeys returns a warning about each key of an older version, one per line.
func removedKeys(c *threads.Config) (lines []string) {
	for _, k := range c.Removed {
		lines = append(lines, fmt.Sprintf("%s:%d: %s: no longer used: %s", c.Name, k.Line, k.Key, k.Advice))
	}
	return lines
}

// problems returns the configuration problems that keep agents from working, one per line.
func problems(c *threads.Config) []string {
	var lines []string
	for _, p := range c.Problems() {
		lines = append(lines, p.String())
	}
	return lines
}
