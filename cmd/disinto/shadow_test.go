package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A build with itself as its shadow decides the same all the time, even across an upgrade, and the shadow leaves
// nothing behind.
func TestShadowOfItself(t *testing.T) {
	leftToStorms(t, "the answers of a shadow in supervisor/shadow")
	t.Parallel()
	const n = 6
	s := newSoak(t, 2, n, "0.1")
	s.factory = fmt.Sprintf("decide = \"shadow:%s\"\n", executable(t))
	r := s.start()
	status(t, s.state, "the shadow has answered", func(d *control.Document) bool {
		return d.Shadow != nil && d.Shadow.Total.Decisions > 0
	})
	if got := disinto(t.Context(), nil, "upgrade", "--state", s.state); got.code != exitDone {
		t.Fatalf("upgrade: got %+v", got)
	}
	for i := range n {
		s.file(10 + i)
	}
	d := status(t, s.state, "all work is done, and the shadow has answered", func(d *control.Document) bool {
		return strings.Count(r.read(s.ledger), "\n") >= 2*n && d.Shadow.Total.Decisions > 1
	})
	if x := d.Shadow; x.Total.Differing > 0 || len(x.Differs) > 0 || x.Version != version() || x.Path != executable(t) {
		t.Errorf("got %+v", x)
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if left := mentions(t, s.state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	if exists(s.state + "/shadow") {
		t.Error("the shadow's folder still exists")
	}
}

// lies are programs that are broken or are not disinto, each with the status's report about it. $2 is the file with
// the question.
var lies = []struct{ name, script, want string }{
	{"garbage", `echo "no JSON here"; echo "{{{"`, `cannot decode the answer: it is "{{{"`},
	{"forks", `setsid sh -c 'trap "" TERM; sleep 1000' "$2" & echo x`, "cannot decode the answer"},
	{
		"curious", `case "$(env)" in *TOKEN*|*HOME*) is=rich ;; *) is=poor ;; esac; echo '{"format":1,"error":"'$is'"}'`,
		"poor",
	},
	{"crashes", `kill -SEGV $$`, "SIGSEGV"},
	{"flood", `cat /dev/zero`, "5s"},
	{
		"stranger", `echo '{"format":1,"program":"v7","plan":{"Starts":[{"Agent":"nobody","Slot":-5}],"Holds":[{"Reason":'` +
			`'{"Code":"odd"}},null]}}'`, "v7: cannot decode a plan: hold 1 has no reason",
	},
	{"silent", `exit 0`, `cannot decode the answer: it is ""`},
	{"old", `echo 'disinto: there is no command "decide-run"' >&2; exit 2`, `there is no command "decide-run"`},
	{"killed", `kill -9 $$`, "killed by SIGKILL"},
	{"slow", `sleep 1000`, "5s"},
	{"endless", `yes | tr -d '\n' | head -c 20000000; echo`, "cannot"},
	{
		"newer", `echo '{"format":99,"program":"v99","plan":{}}'`,
		"v99: it answers in format 99, and this build reads format 1",
	},
	{
		"refuses", `echo '{"format":1,"program":"v1","error":"asked in format 2"}'`,
		"v1: it does not decide: asked in format 2",
	},
	{"broken", `echo '{"format":1,"plan":{"Holds":[null]}}'`, "hold 0 has no reason"},
}

// Whatever the shadow does, the factory continues its work, the status reports the fault with the line of the key,
// and no process of the shadow remains.
func TestShadowThatLies(t *testing.T) {
	leftToStorms(t, "TestOtherProgram and TestFailuresRest of supervisor/shadow")
	t.Parallel()
	s := newSoak(t, 2, 2, "0.1")
	dir := t.TempDir()
	s.factory = "decide = \"shadow:" + dir + "/missing\"\n"
	r := s.start()
	says := func(path, want string) {
		t.Helper()
		d := status(t, s.state, path+": "+want, func(d *control.Document) bool {
			return d.Shadow != nil && d.Shadow.Path == path && strings.Contains(d.Shadow.Error, want)
		})
		told := func(line string) bool { return strings.HasPrefix(line, "factory.toml:8: factory.decide: "+path+": ") }
		if !slices.ContainsFunc(d.Problems, told) {
			t.Errorf("got problems %q", d.Problems)
		}
	}
	says(dir+"/missing", "no such file")
	if err := os.WriteFile(dir+"/text", []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "is a directory", dir + "/text": "cannot start"} {
		s.configure(path)
		r.signal(syscall.SIGHUP)
		says(path, want)
	}
	for _, lie := range lies {
		path := filepath.Join(dir, lie.name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lie.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		s.configure(path)
		r.signal(syscall.SIGHUP)
		says(path, lie.want)
	}
	eventually(t, "no process of a shadow remains", func() bool { return len(mentions(t, "question.json")) == 0 })
	eventually(t, "all work is done", func() bool { return strings.Count(r.read(s.ledger), "\n") >= 2 })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	for _, token := range s.environ {
		_, value, _ := strings.Cut(token, "=")
		if strings.Contains(r.read(r.stderr)+r.read(r.stdout), value) {
			t.Errorf("the log contains the token %s", value)
		}
	}
}

// configure sets another shadow in factory.toml.
func (s *soak) configure(path string) {
	s.t.Helper()
	text, err := os.ReadFile(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	was, _, _ := strings.Cut(string(text[strings.Index(string(text), "decide = "):]), "\n")
	again := strings.Replace(string(text), was, fmt.Sprintf("decide = %q", "shadow:"+path), 1)
	if err := os.WriteFile(s.config, []byte(again), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
