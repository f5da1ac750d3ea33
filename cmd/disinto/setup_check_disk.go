//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// disk reports the free space of the state directory's disk, and when files there are deleted.
func (k *checker) disk(state string) {
	there := state
	for !exists(there) && there != "/" {
		there = filepath.Dir(there)
	}
	f, free := &k.config.Factory, room(there).Disk
	if free < f.MinFreeDisk {
		k.addProblem("disk", fmt.Errorf(
			"%s free, less than min_free_disk = %s: nothing starts; free space, or lower the limit",
			agents.Size(free), agents.Size(f.MinFreeDisk)))
	}
	log := "a log may use all of it"
	if f.MaxLog > 0 {
		log = "a log uses at most " + agents.Size(f.MaxLog)
	}
	k.addOK("disk", "%s free in %s; %s, and is deleted after %s; a workspace is deleted %s after its issue is closed",
		agents.Size(free), state, log, inDays(f.Keep), inDays(f.KeepWorkspaces))
}

// inDays formats a duration as in factory.toml: whole days as 7d.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
