package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// treeOfOthers makes a folder that root owns, and in it a folder of another account, stranger.
func treeOfOthers(t *testing.T) (ours, theirs string, a *account) {
	t.Helper()
	needRoot(t)
	a, err := findAccount(stranger)
	if err != nil {
		t.Fatal(err)
	}
	ours = filepath.Dir(newJob(t, "").Dir)
	theirs = filepath.Join(ours, "home")
	if err := makeFolder(theirs, a); err != nil {
		t.Fatal(err)
	}
	return ours, theirs, a
}

func uid(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}

func TestMakeFolder(t *testing.T) {
	ours, theirs, a := treeOfOthers(t)
	if err := makeFolder(ours+"/a/b/c", a); err != nil {
		t.Fatal(err)
	}
	if uid(t, ours+"/a") != 0 || uid(t, ours+"/a/b") != 0 || uid(t, ours+"/a/b/c") != 65534 {
		t.Error("want only the last folder owned by the account")
	}
	if err := makeFolder(theirs+"/a/b", a); err != nil {
		t.Fatal(err)
	}
	if uid(t, theirs+"/a") != 65534 || uid(t, theirs+"/a/b") != 65534 {
		t.Error("the account must create the entries of its own folder")
	}
	for name, target := range map[string]string{"absolute": ours, "relative": "a/../../" + filepath.Base(ours)} {
		if err := os.Symlink(target, ours+"/"+name); err != nil {
			t.Fatal(err)
		}
		if err := makeFolder(ours+"/"+name+"/d"+name, a); err != nil || uid(t, ours+"/d"+name) != 65534 {
			t.Errorf("through the operator's %s link: %v, want a folder of the account", name, err)
		}
	}
	if err := os.Symlink("loop", ours+"/loop"); err != nil {
		t.Fatal(err)
	}
	if err := makeFolder(ours+"/loop/d", a); !errors.Is(err, unix.ELOOP) {
		t.Errorf("through a link to itself: %v, want ELOOP", err)
	}
	if err := os.WriteFile(ours+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeFolder(ours+"/file/d", a); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v, want ENOTDIR", err)
	}
	if err := makeFolder("relative/path", a); err == nil {
		t.Error("makeFolder accepted a relative path")
	}
	if err := makeFolder(ours+"/a/b/c", a); err != nil {
		t.Errorf("for an existing folder: %v, want no error", err)
	}
}

// The first sessions of a new factory start at the same moment, in folders that share parents.
func TestMakeFolderAtTheSameTime(t *testing.T) {
	ours, _, a := treeOfOthers(t)
	for round := range 50 {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if err := makeFolder(fmt.Sprintf("%s/%d/home/agent-%d", ours, round, i), a); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// An agent that can make us create a folder where it may not write takes over the machine.
func TestMakeFolderIsNotLedAstray(t *testing.T) {
	ours, theirs, a := treeOfOthers(t)
	secret := filepath.Join(ours, "secret")
	if err := os.Mkdir(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, theirs+"/work"); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(theirs+"/work", 65534, 65534); err != nil {
		t.Fatal(err)
	}
	err := makeFolder(theirs+"/work/issue-1", a)
	if err == nil || exists(secret+"/issue-1") {
		t.Errorf("a folder was made where the agent's link led: %v", err)
	}
}

func TestResultIsReadWithTheAgentsRights(t *testing.T) {
	_, theirs, a := treeOfOthers(t)
	hidden := filepath.Join(t.TempDir(), "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hidden+"/result.json", []byte(`{"outcome":"done"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(hidden, theirs+"/out"); err != nil {
		t.Fatal(err)
	}
	path := theirs + "/out/result.json"
	if _, found, err := readResult(path, a, nil); err == nil {
		t.Errorf("readResult read a file that the agent may not read (found %v)", found)
	}
	if err := clearResult(path, a); err == nil || !exists(hidden+"/result.json") {
		t.Errorf("clearResult followed the agent's link and removed a file: %v", err)
	}
}

// CheckFolders finds what a start would meet, and creates nothing. A parent of the state folder that belongs to a third
// account makes every start fail, because the agent's account may not write there.
func TestCheckFolders(t *testing.T) {
	ours, theirs, a := treeOfOthers(t)
	const third = 65533
	for _, tt := range []struct {
		name, dir string
		mode      os.FileMode // 0: the folder is missing
		owner     int
		fails     bool
	}{
		{"a new folder of ours", ours + "/new", 0, 0, false},
		{"a folder of ours", ours + "/old", 0o755, 0, false},
		{"a closed folder of ours", ours + "/closed", 0o700, 0, true},
		{"a folder of the account", theirs + "/own", 0o700, 65534, false},
		{"a folder of a third account", ours + "/third", 0o755, third, true},
		{"a closed folder of a third account", ours + "/shut", 0o700, third, true},
		{"a folder that everybody may write", ours + "/common", 0o777 | os.ModeSticky, 0, false},
		{"a third account's in it", ours + "/common/third", 0o755, third, true},
	} {
		if tt.mode != 0 {
			err := errors.Join(os.MkdirAll(tt.dir, 0o755), os.Chmod(tt.dir, tt.mode), os.Chown(tt.dir, tt.owner, tt.owner))
			if err != nil {
				t.Fatal(err)
			}
		}
		state := tt.dir + "/state"
		job := agents.Job{
			User: stranger, Home: state + "/home/dev", Dir: state + "/work/dev/x", ResultPath: state + "/results/dev/x.json",
			LogPath: state + "/logs/dev/x.log", Tmp: state + "/tmp/dev",
		}
		err := CheckFolders(&job)
		if (err != nil) != tt.fails || exists(state) {
			t.Errorf("%s: CheckFolders = %v; it created something: %v", tt.name, err, exists(state))
		}
		r := run{job: job, account: a}
		log, startErr := r.prepare()
		if startErr == nil {
			_ = log.Close()
			startErr = a.barred(job.Dir)
		}
		if (startErr != nil) != tt.fails {
			t.Errorf("%s: a start says %v, CheckFolders %v", tt.name, startErr, err)
		}
	}
}
