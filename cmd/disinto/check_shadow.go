//go:build linux

package main

import (
	"fmt"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/process"
)

// shadow looks for the program of [factory] decide. Only a supervisor finds out whether it answers.
func (k *checker) shadow() {
	f := &k.config.Factory
	if f.Shadow == "" {
		return
	}
	if _, err := process.Lookup(f.Shadow, "", k.c.environ); err != nil {
		k.problem("programs", fmt.Errorf("%s:%d: factory.decide: cannot use %s: %w", filepath.Base(k.config.Name),
			f.ShadowLine, f.Shadow, err))
		return
	}
	k.well("programs", "shadow: %s", f.Shadow)
}
