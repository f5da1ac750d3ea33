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
	if own := rolesWithNetwork(localPart(config), agents.SandboxStrict); err == nil && len(own) > 0 {
		if shared := found.Shared(); shared != nil {
			err = fmt.Errorf(`network = "own" of %s: %w`, strings.Join(own, ", "), shared)
		}
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

// rolesWithNetwork returns the names of the roles of these modes whose sessions have a network of their own.
func rolesWithNetwork(config *threads.Config, modes ...agents.SandboxMode) (names []string) {
	for _, name := range rolesWith(config, modes...) {
		if config.Role(name).Sandbox.OwnNetwork {
			names = append(names, name)
		}
	}
	return names
}

// hasEgress reports whether sessions may reach certain hosts only.
func hasEgress(config *threads.Config) bool {
	return slices.ContainsFunc(config.Roles, func(r agents.Role) bool { return r.Sandbox.Egress != nil }) ||
		slices.ContainsFunc(config.Repos, func(r threads.Repo) bool { return r.Egress != nil })
}

// sandboxLines describes the sandbox of sessions in holds, also that it holds their egress and gives them networks, and
// in lacks what is missing or incomplete.
func sandboxLines(config *threads.Config) (holds, lacks string) {
	holds, lacks = boxLines(config)
	if config = localPart(config); !hasEgress(config) {
		return holds, lacks
	}
	found, err := findSandbox()
	if open := cmp.Or(err, found.Open); open != nil {
		lacks = join(lacks, "egress is advisory, by the variables of a proxy: "+open.Error())
	} else {
		holds = join(holds, "egress holds")
	}
	own := strings.Join(rolesWithNetwork(config, agents.SandboxAuto, agents.SandboxStrict), ", ")
	if own == "" || err != nil {
		return holds, lacks
	}
	if shared := found.Shared(); shared != nil {
		return holds, join(lacks, "sessions of "+own+" share this machine's network: "+shared.Error())
	}
	return join(holds, "those of "+own+" have networks of their own"), lacks
}

// join joins two parts of a line, either of which may be empty.
func join(part, next string) string { return strings.Trim(part+"; "+next, "; ") }

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
		lacks = join(lacks, `sandbox = "off" of `+strings.Join(off, ", "))
	}
	return holds, lacks
}

// sandboxLine returns both of sandboxLines in one line, for the status.
func sandboxLine(config *threads.Config) string {
	holds, lacks := sandboxLines(config)
	return join(holds, lacks)
}
