//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// disk says what the state directory's disk has left, and what is deleted there.
func (k *checker) disk(state string) {
	there := state
	for !exists(there) && there != "/" {
		there = filepath.Dir(there)
	}
	f, free := &k.config.Factory, room(there).Disk
	if free < f.MinFreeDisk {
		k.problem("disk", fmt.Errorf("%s of %s free: nothing starts; free some, or lower min_free_disk", agents.Size(free),
			agents.Size(f.MinFreeDisk)))
	}
	log := "a log may take all of it"
	if f.MaxLog > 0 {
		log = "a log takes at most " + agents.Size(f.MaxLog)
	}
	k.well("disk", "%s free in %s; %s, and is deleted after %s; a workspace is deleted %s after its issue was closed",
		agents.Size(free), state, log, inDays(f.Keep), inDays(f.KeepWorkspaces))
}

// inDays writes a duration as the configuration does.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
