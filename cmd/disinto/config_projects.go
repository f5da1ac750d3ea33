//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/agents/upstream"
)

// configText returns the text of a factory.toml: that of the file or, if path is the directory of upstream's projects,
// one made from these. If the projects have mistakes, the text is the error, so that changed notices a different error.
func configText(path string, lookupEnv func(string) (string, bool)) (string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if filepath.Ext(path) == ".toml" {
			return "", fmt.Errorf("cannot read %s: it is a directory, which Docker creates for a mount whose file is missing; "+
				"stop the container, remove the directory and write the file there", path)
		}
		text, err := projectsText(path, lookupEnv)
		if err != nil {
			text = err.Error()
		}
		return text, err
	}
	raw, err := plainfile.ReadNamed(path, longestConfig)
	switch mode, _ := lookupEnv("DISINTO_SCHEDULER"); {
	case errors.Is(err, os.ErrNotExist):
		return "", noConfig(path)
	case err != nil:
		return "", fmt.Errorf("cannot read the configuration: %w", err)
	case mode == schedulerPoll:
		return "", fmt.Errorf("DISINTO_SCHEDULER is %s, which works only with upstream's projects, not with %s: "+
			"use --config projects, or unset it", mode, path)
	}
	return string(raw), nil
}

// The values of $DISINTO_SCHEDULER, for upstream's projects.
const (
	schedulerPoll    = "poll"    // run upstream's pollers on a schedule
	schedulerThreads = "threads" // run upstream's agents on single items
)

// projectsText makes a factory.toml from upstream's projects.
func projectsText(dir string, lookupEnv func(string) (string, bool)) (string, error) {
	mode, _ := lookupEnv("DISINTO_SCHEDULER")
	if mode != "" && mode != schedulerPoll && mode != schedulerThreads {
		return "", fmt.Errorf("DISINTO_SCHEDULER is %q, want poll or threads", mode)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot find upstream's projects: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find the program of upstream's roles: %w", err)
	}
	projects, err := upstream.ReadProjects(dir)
	if err != nil {
		return "", err
	}
	f := upstream.Factory{
		Root: filepath.Dir(dir), Self: self, Projects: projects, Poll: mode == schedulerPoll, LookupEnv: lookupEnv,
	}
	return f.TOML()
}
