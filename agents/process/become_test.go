package process

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// linked builds a program in testdata as make build links it.
func linked(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var words bytes.Buffer
	env := append(os.Environ(), "CGO_ENABLED=0")
	run := func(argv ...string) string {
		words.Reset()
		if err := reaper.Run(t.Context(), Cmd{Argv: argv, Env: env, Stdout: &words, Stderr: &words}); err != nil {
			t.Fatalf("%v\n%s", err, words.String())
		}
		return strings.TrimSpace(words.String())
	}
	flags := run("make", "-s", "--no-print-directory", "-C", "../..", "ldflags")
	if !strings.Contains(flags, " -E ") {
		t.Skip("no first instructions for this architecture")
	}
	run("go", "build", "-tags", "entry", "-ldflags", flags, "-o", path, "./testdata/"+name)
	return path
}

// A TERM at any moment of an upgrade in place arrives, even in the new image's first moment. This holds as PID 1,
// where the kernel drops a signal without a handler, and below another init, where such a signal kills.
func TestTermAtAnyMoment(t *testing.T) {
	if os.Getenv("DISINTO_STORMS") == "" {
		t.Skip("compiles the standard library: make check plays it, and make test TestTermDuringUpgrade of cmd/disinto")
	}
	program := linked(t, "become")
	for name, flags := range map[string]uintptr{"PID 1": syscall.CLONE_NEWPID, "below another": 0} {
		if flags != 0 && os.Geteuid() != 0 {
			continue // a PID namespace needs root
		}
		t.Run(name, func(t *testing.T) {
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					for range 250 {
						c, err := reaper.Start(program, []string{"become", "run", "0"}, &syscall.ProcAttr{
							Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Cloneflags: flags},
						})
						if err != nil {
							t.Error(err)
							return
						}
						eventually(t, "it has executed itself", func() bool {
							args := strings.Split(read("/proc/"+itoa(c.PID)+"/cmdline"), "\x00")
							return len(args) > 2 && args[2] != "0"
						})
						time.Sleep(rand.N(20 * time.Millisecond))
						_ = syscall.Kill(c.PID, syscall.SIGTERM)
						select {
						case e := <-c.Exit():
							if e.Status != 0 {
								t.Errorf("the program ended with %s, want exit status 0", describe(e.Status))
							}
						case <-time.After(time.Minute):
							t.Error("the program lost a TERM")
							_ = syscall.Kill(c.PID, syscall.SIGKILL)
							<-c.Exit()
						}
					}
				})
			}
			wait.Wait()
		})
	}
}
