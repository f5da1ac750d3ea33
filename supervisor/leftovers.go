package supervisor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// leftovers are what older versions kept in the state directory, and no version reads any more.
var leftovers = []struct {
	name string
	kind fs.FileMode // 0: a plain file
}{{"decisions", fs.ModeDir}, {"eta.json", 0}, {"shadow", fs.ModeDir}}

// removeLeftovers removes the files of older versions from the state directory. It removes only what those versions
// made there, a folder or a plain file of this account, and follows no link.
func (s *Supervisor) removeLeftovers() {
	var gone []string
	for _, old := range leftovers {
		path := filepath.Join(s.StateDir, old.name)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != old.kind || !ours(info) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			s.log.Warn(fmt.Sprintf("cannot remove %s of an older version: %s", path, text(err)))
			continue
		}
		gone = append(gone, old.name)
	}
	if len(gone) > 0 {
		s.log.Info("removed from the state directory what an older version kept there: " + strings.Join(gone, ", "))
	}
}

// ours reports whether a file belongs to this account.
func ours(info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && int(owner.Uid) == os.Geteuid()
}
