//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// findSandbox finds out which restrictions the kernel supports. Tests replace it.
var findSandbox = process.FindSandbox

// checkStrict refuses a configuration with sandbox = "strict" if the kernel does not support a complete sandbox.
func checkStrict(config *threads.Config) error {
	strict := rolesWith(localPart(config), agents.SandboxStrict)
	if len(strict) == 0 {
		return nil
	}
	found, err := findSandbox()
	if err == nil && !found.Complete {
		err = errors.New(found.Holds)
	}
	if err == nil && found.Open != nil && hasEgress(config) {
		err = fmt.Errorf("egress cannot be held: %w", found.Open)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf(`%s: sandbox = "strict" of %s: %w; update the kernel, or set "auto"`,
		config.Name, strings.Join(strict, ", "), err)
}

// rolesWith returns the names of the roles whose sandbox has one of these modes.
func rolesWith(config *threads.Config, modes ...agents.SandboxMode) (names []string) {
	for i := range config.Roles {
		for _, mode := range modes {
			if r := &config.Roles[i]; r.Sandbox.Mode == mode {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// hasEgress reports whether sessions may reach certain hosts only.
func hasEgress(config *threads.Config) bool {
	return slices.ContainsFunc(config.Roles, func(r agents.Role) bool { return r.Sandbox.Egress != nil }) ||
		slices.ContainsFunc(config.Repos, func(r threads.Repo) bool { return r.Egress != nil })
}

// sandboxLines describes the sandbox of sessions in holds, also that it holds their egress, and in lacks what is
// missing or incomplete.
func sandboxLines(config *threads.Config) (holds, lacks string) {
	holds, lacks = boxLines(config)
	if config = localPart(config); !hasEgress(config) {
		return holds, lacks
	}
	found, err := findSandbox()
	if open := cmp.Or(err, found.Open); open != nil {
		lacks = strings.TrimPrefix(lacks+"; ", "; ")
		return holds, lacks + "egress is advisory, by the variables of a proxy: " + open.Error()
	}
	return strings.TrimPrefix(holds+"; ", "; ") + "egress holds", lacks
}

// boxLines is sandboxLines without egress.
func boxLines(config *threads.Config) (holds, lacks string) {
	config = localPart(config)
	on, off := rolesWith(config, agents.SandboxAuto, agents.SandboxStrict), rolesWith(config, agents.SandboxOff)
	if len(on) > 0 {
		found, err := findSandbox()
		switch {
		case err != nil:
			lacks = "no sandbox: " + err.Error()
		case found.Complete:
			holds = "in a sandbox: " + found.Holds
		default:
			lacks = "in an incomplete sandbox: " + found.Holds
		}
	}
	if len(off) > 0 {
		lacks = strings.TrimPrefix(lacks+"; ", "; ") + `sandbox = "off" of ` + strings.Join(off, ", ")
	}
	return holds, lacks
}

// sandboxLine returns both of sandboxLines in one line, for the status.
func sandboxLine(config *threads.Config) string {
	holds, lacks := sandboxLines(config)
	return strings.TrimPrefix(strings.TrimSuffix(holds+"; "+lacks, "; "), "; ")
}
