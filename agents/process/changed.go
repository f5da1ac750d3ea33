package process

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
)

const (
	// mostChecked bounds the files that a search checks; that many take 10 ms of the slot's time.
	mostChecked = 4000
	// clockStep is how far the kernel's change times may lag behind our clock.
	clockStep = 20 * time.Millisecond
)

// changed finds the files outside of the workspace that changed between the program's start and the session's end,
// wherever its sandbox allowed writing. The end may be long ago. It compares the kernel's change times, which a program
// cannot set. It does not find files that were deleted since.
func (r *run) changed(secrets []string) agents.Sighting {
	if r.held == "" {
		return agents.NotSeen("no sandbox limited where it may write")
	}
	s := search{since: r.begun.Add(-clockStep), until: r.state.At, left: mostChecked}
	for _, path := range []string{
		r.job.Dir, r.job.Tmp, r.job.LogPath, r.job.ResultPath, agents.InboxPath(r.job.ResultPath),
	} {
		if real, err := filepath.EvalSymlinks(path); path != "" && err == nil {
			s.without = append(s.without, real)
		}
	}
	var roots []string
	for _, p := range r.rules.Paths {
		if path := string(p.Name); p.Access == landlock.Write || path == "/dev/shm" {
			roots = append(roots, path)
		}
	}
	for i, root := range roots {
		if s.separate(root, append(roots[:i:i], roots[i+1:]...)) {
			s.enter(root)
		}
	}
	for len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.folder(next)
	}
	for i, name := range s.names {
		s.names[i] = agents.Redact(name, secrets)
	}
	found := agents.Sight(s.count, s.names)
	found.AtLeast, found.Cut = s.partly, found.Cut || int64(len(s.names)) < s.count
	return found
}

// search walks folders breadth first, and follows no link.
type search struct {
	since   time.Time
	until   time.Time // zero if unknown
	without []string
	left    int // entries that it may still check
	queue   []string
	count   int64
	names   []string
	partly  bool // some entries were not checked
}

// separate reports whether a path is neither excluded nor below another searched path.
func (s *search) separate(path string, others []string) bool {
	for _, w := range s.without {
		if path == w || below(path, w) {
			return false
		}
	}
	for _, o := range others {
		if below(path, o) {
			return false
		}
	}
	return true
}

// enter starts at a path that a rule names.
func (s *search) enter(path string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil {
		s.entry(path, &st)
	}
}

// entry counts a file that changed, and queues a folder.
func (s *search) entry(path string, st *unix.Stat_t) {
	changed := time.Unix(st.Ctim.Unix())
	switch {
	case !s.separate(path, nil):
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		s.queue = append(s.queue, path)
	case changed.Before(s.since) || !s.until.IsZero() && changed.After(s.until):
	default:
		s.count++
		if len(s.names) < agents.MaxNames/2 {
			s.names = append(s.names, path)
		}
	}
}

// folder checks the entries of a folder.
func (s *search) folder(path string) {
	if s.left <= 0 {
		s.partly = true
		return
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		s.partly = true
		return
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	names, err := dir.Readdirnames(s.left)
	s.partly = s.partly || err != nil && len(names) == 0 && !errors.Is(err, io.EOF) || len(names) == s.left
	s.left -= len(names)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			s.entry(strings.TrimSuffix(path, "/")+"/"+name, &st)
		}
	}
}
