package simtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// span replaces a day, to shorten the test. It is longer than the hour between two passes.
const span = 90 * time.Minute

// saveCommand is the command that saves work.
var saveCommand = []string{"save"}

func isSave(job agents.Job) bool { return slices.Equal(job.Command, saveCommand) }

// leave puts a file, or with a trailing slash a folder, of the given age into the state directory.
func (w *World) leave(name string, age time.Duration) {
	w.T.Helper()
	path := filepath.Join(w.Dir, name)
	dir, isDir := filepath.Dir(path), strings.HasSuffix(name, "/")
	if isDir {
		dir = path
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && !isDir {
		err = os.WriteFile(path, []byte("text"), 0o600)
	}
	at := time.Now().Add(-age)
	if err == nil {
		err = os.Chtimes(path, at, at)
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// left lists the contents of the folders of logs, results and workspaces.
func (w *World) left() (list []string) {
	for _, folder := range []string{"logs", "results", "work"} {
		found, _ := filepath.Glob(filepath.Join(w.Dir, folder, "*", "*"))
		for _, path := range found {
			name, _ := filepath.Rel(w.Dir, path)
			list = append(list, name)
		}
	}
	return list
}

// Logs and results are deleted after keep, and workspaces when their issue has been closed for keep_workspaces and
// their work is saved. Files in use stay. Work that cannot be saved stays until keep is over.
func TestClears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Factory.Keep, w.Config.Factory.KeepWorkspaces = 3*span, span
		w.Exec.Script = func(job agents.Job, n int) Script {
			switch {
			case isSave(job) && job.Number == 92:
				return Script{Outcome: agents.Outcome{Result: agents.Failed, Reason: "the forge refused the push"}}
			case isSave(job):
				return Script{Takes: time.Second, Outcome: agents.Outcome{Result: agents.Done, Reason: "its work is on wip/x"}}
			}
			return w.Work(job, n)
		}
		n := w.Forge.Issue("one") // stays open for a while
		w.leave("logs/dev-qwen/old.log", 4*span)
		w.leave("logs/dev-qwen/old.log.times", 4*span)
		w.leave("logs/dev-qwen/new.log", span)
		w.leave("logs/dev-qwen/new.log.times", span)
		w.leave("logs/gone/old.log", 4*span)
		w.leave("results/dev-qwen/old.json", 4*span)
		w.leave("results/dev-qwen/future.json", -span)
		w.leave("results/dev-qwen/new.json", span)
		w.leave(fmt.Sprintf("work/dev-qwen/johba_harb_%d/", n), 9*span)
		w.leave("work/dev-qwen/johba_harb_90/", 2*span)
		w.leave("work/dev-qwen/johba_harb_91/", span/2)
		w.leave("work/dev-qwen/johba_harb_92/", 2*span)
		w.leave("work/dev-qwen/johba_harb_planner/", 9*span)
		w.leave("work/dev-qwen/elsewhere_r_90/", 9*span)
		w.leave("work/gone/johba_harb_90/", 2*span)
		w.leave("work/gone/johba_harb_93/", 4*span)
		w.leave("home/dev-qwen/file", 9*span)
		stays := []string{
			"logs/dev-qwen/new.log", "logs/dev-qwen/new.log.times", "results/dev-qwen/new.json",
			"work/dev-qwen/elsewhere_r_90", "work/dev-qwen/johba_harb_1", "work/dev-qwen/johba_harb_91",
			"work/dev-qwen/johba_harb_92", "work/dev-qwen/johba_harb_planner", "work/gone/johba_harb_90",
		}
		l := w.Start(func(l *Life) { l.SaveWork = saveCommand })
		time.Sleep(5 * time.Minute)
		if got := w.left(); !slices.Equal(got, stays) {
			t.Errorf("got left\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(stays, "\n"))
		}
		doc := l.Document()
		const why = "cannot save the work in work/dev-qwen/johba_harb_92: the forge refused the push; it stays until"
		if len(doc.Problems) != 1 || !strings.HasPrefix(doc.Problems[0], why) ||
			!strings.HasSuffix(doc.Problems[0], "(and 1 more)") {
			t.Errorf("got problems %q, want one that starts with %q", doc.Problems, why)
		}
		if d := doc.Disk; d.Logs != 1 || d.Workspaces != 6 || d.Deleted != 6 {
			t.Errorf("got disk status %+v, want 1 log, 6 workspaces, 6 deleted", d)
		}
		time.Sleep(4 * span)
		stays = []string{"work/dev-qwen/elsewhere_r_90", "work/dev-qwen/johba_harb_planner"}
		if got := w.left(); !slices.Equal(got, stays) {
			t.Errorf("after four spans: got left\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(stays, "\n"))
		}
		if _, err := os.Stat(filepath.Join(w.Dir, "home/dev-qwen/file")); err != nil {
			t.Error(err)
		}
		l.Stop()
		w.Check() // no agent works while its work is saved
	})
}

// While the disk is short, the oldest deletable files are deleted, until a quarter more than min_free_disk is free.
// Then work continues.
func TestClearsShortDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Factory.Keep, w.Config.Factory.KeepWorkspaces = 9*time.Hour, 3*time.Hour
		w.Config.Factory.MinFreeDisk = 8
		for i := range 5 {
			w.leave(fmt.Sprintf("logs/dev-qwen/%d.log", i), time.Duration(100-2*i)*time.Minute)
			w.leave(fmt.Sprintf("work/dev-qwen/johba_harb_9%d/", i), time.Duration(99-2*i)*time.Minute)
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			if isSave(job) {
				return Script{Outcome: agents.Outcome{Result: agents.Done}}
			}
			return w.Work(job, n)
		}
		l := w.Start(func(l *Life) {
			l.SaveWork = saveCommand
			l.Room = func(string) threads.Room {
				return threads.Room{Memory: 1 << 40, Disk: int64(14 - len(w.left()))}
			}
		})
		w.Forge.Issue("one")
		w.Until(time.Hour, "a merge", w.Forge.Done)
		want := []string{
			"logs/dev-qwen/3.log", "logs/dev-qwen/4.log", "work/dev-qwen/johba_harb_93", "work/dev-qwen/johba_harb_94",
		}
		if got := w.left(); !slices.Equal(got, want) {
			t.Errorf("got left\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		l.Stop()
		w.Check()
	})
}

// A workspace of an issue that stays open is deleted once nobody has used it for keep and its work is saved, or while
// the disk is short, after everything else, once nobody has used it for keep_workspaces. One whose work cannot be saved
// stays, and so do those of agents that work on the issue or whose thread is parked.
func TestClearsOpenIssues(t *testing.T) {
	for _, tt := range []struct {
		name  string
		short bool
		gone  []int64
	}{
		{"enough disk", false, []int64{1}},
		{"a short disk", true, []int64{5, 1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Slow()
				w.Config.Factory.Keep, w.Config.Factory.KeepWorkspaces, w.Config.Factory.MinFreeDisk = 4*span, span, 8
				var mu sync.Mutex // guards gone
				var gone []int64
				deleted := func() []int64 {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(gone)
				}
				w.Exec.Script = func(job agents.Job, n int) Script {
					switch {
					case isSave(job) && job.Number == 4:
						return Script{Outcome: agents.Outcome{Result: agents.Failed, Reason: "the forge refused the push"}}
					case isSave(job):
						mu.Lock()
						defer mu.Unlock()
						gone = append(gone, job.Number)
						return Script{Outcome: agents.Outcome{Result: agents.Done, Reason: "its work is on wip/x"}}
					}
					return w.Work(job, n)
				}
				for i, age := range []time.Duration{5 * span, 2 * span, span / 2, 6 * span} {
					n := w.Forge.Issue(fmt.Sprint("issue ", i))
					w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelBlocked) })
					w.leave(fmt.Sprintf("work/dev-qwen/johba_harb_%d/", n), age)
				}
				w.leave("work/dev-qwen/johba_harb_5/", span/2) // gone from the forge
				l := w.Start(func(l *Life) {
					l.SaveWork = saveCommand
					l.Room = func(string) threads.Room {
						if disk := int64(4 + len(deleted())); tt.short {
							return threads.Room{Memory: 1 << 40, Disk: disk}
						}
						return threads.Room{Memory: 1 << 40, Disk: 1 << 40}
					}
				})
				time.Sleep(5 * time.Minute)
				if got := deleted(); !slices.Equal(got, tt.gone) {
					t.Errorf("got the workspaces of %v deleted, want those of %v", got, tt.gone)
				}
				doc := l.Document()
				const why = "cannot save the work in work/dev-qwen/johba_harb_4: the forge refused the push; it stays, " +
					"because johba/harb#4 is open"
				if !slices.Contains(doc.Problems, why) {
					t.Errorf("got problems %q, want %q", doc.Problems, why)
				}
				if log := w.Log.String(); !strings.Contains(log, "#1] workspace deleted: not used since ") ||
					!strings.Contains(log, "; its work is on wip/x") {
					t.Errorf("the log does not say when the workspace was used:\n%s", log)
				}
				l.Stop()
			})
		})
	}
}
