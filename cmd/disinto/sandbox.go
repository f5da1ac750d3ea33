//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// findSandbox asks the kernel what a sandbox holds. Tests take it away.
var findSandbox = process.FindSandbox

// checkStrict refuses a configuration that wants more of a sandbox than there is.
func checkStrict(config *threads.Config) error {
	strict := rolesWith(here(config), agents.SandboxStrict)
	if len(strict) == 0 {
		return nil
	}
	holds, complete, err := findSandbox()
	if err == nil && !complete {
		err = errors.New(holds)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf(`%s: sandbox = "strict" of %s: %w; update the kernel, or say "auto"`,
		config.Name, strings.Join(strict, ", "), err)
}

// rolesWith names the roles whose sandbox has one of these modes.
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

// sandboxLines say what holds sessions, and what does not hold some of them.
func sandboxLines(config *threads.Config) (holds, lacks string) {
	config = here(config)
	on, off := rolesWith(config, agents.SandboxAuto, agents.SandboxStrict), rolesWith(config, agents.SandboxOff)
	if len(on) > 0 {
		found, complete, err := findSandbox()
		switch {
		case err != nil:
			lacks = "no sandbox: " + err.Error()
		case complete:
			holds = "in a sandbox: " + found
		default:
			lacks = "in a sandbox that is not complete: " + found
		}
	}
	if len(off) > 0 {
		lacks = strings.TrimPrefix(lacks+"; ", "; ") + `sandbox = "off" of ` + strings.Join(off, ", ")
	}
	return holds, lacks
}

// sandboxLine is both in one line, for the status.
func sandboxLine(config *threads.Config) string {
	holds, lacks := sandboxLines(config)
	return strings.TrimPrefix(strings.TrimSuffix(holds+"; "+lacks, "; "), "; ")
}

// sandbox says what holds sessions.
func (k *checker) sandbox() {
	if err := checkStrict(k.config); err != nil {
		k.problem("sessions", err)
		return
	}
	holds, lacks := sandboxLines(k.config)
	if holds != "" {
		k.well("sessions", "%s", holds)
	}
	if lacks != "" {
		k.note("sessions", lacks)
	}
}
