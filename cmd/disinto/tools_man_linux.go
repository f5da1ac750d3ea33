package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process"
)

// becomePager replaces this process by the person's pager with a text on its stdin; a pager reads its keys from the
// terminal. It returns if there is none, as in most containers.
func becomePager(c *cli, text string) {
	pager := cmp.Or(c.getenv("MANPAGER"), c.getenv("PAGER"))
	if pager == "" {
		if _, err := process.Lookup("less", "", c.environ); err != nil {
			return
		}
		pager = "less"
	}
	fd, err := unix.MemfdCreate("manual", unix.MFD_CLOEXEC)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), "manual")
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		return
	}
	if _, err := file.Seek(0, 0); err == nil && unix.Dup3(fd, 0, 0) == nil {
		_ = unix.Exec("/bin/sh", []string{"sh", "-c", pager}, c.environ)
	}
}
