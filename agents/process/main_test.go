package process

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// reaper is the one of this test process; a process has only one.
var reaper *Reaper

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "test-helper" {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	var err error
	if reaper, err = NewReaper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func helper(name string, args []string) int { return 0 }

// newJob is a session of a shell script in fresh folders.
func newJob(t *testing.T, script string) agents.Job {
	t.Helper()
	dir := t.TempDir()
	id := fmt.Sprintf("test%d-%s-%d", os.Getpid(), t.Name(), time.Now().UnixNano())
	id = filepath.Base(filepath.Clean(id))
	return agents.Job{
		RunID: id, Agent: "dev-test", Kind: agents.KindIssue, Repo: "o/r", Number: 1,
		Command:    []string{"/bin/sh", "-c", script},
		Dir:        filepath.Join(dir, "work"),
		Home:       filepath.Join(dir, "home"),
		Env:        []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=" + id, "DISINTO_RESULT=" + filepath.Join(dir, "result", "r.json")},
		LogPath:    filepath.Join(dir, "logs", "run.log"),
		ResultPath: filepath.Join(dir, "result", "r.json"),
		Grace:      5 * time.Second,
	}
}
