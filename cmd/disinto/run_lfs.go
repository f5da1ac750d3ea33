//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// lacksLFS reports whether git-lfs is missing where the built-in program runs: on this machine, if no session runs on
// another one.
func lacksLFS(c *threads.Config, environ []string) bool {
	here := localPart(c)
	if len(here.Agents) < len(c.Agents) {
		return false // the sessions on nodes find out themselves
	}
	for i := range here.Roles {
		if here.Roles[i].CLI != "" {
			return !onPath(agents.Getenv(environ, "PATH"), "git-lfs")
		}
	}
	return false
}

// onPath reports whether a folder of a search path has a program.
func onPath(path, name string) bool {
	for _, dir := range filepath.SplitList(path) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && strings.HasPrefix(dir, "/") {
			return true
		}
	}
	return false
}
