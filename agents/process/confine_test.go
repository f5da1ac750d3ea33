package process

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// When memory runs out, the kernel kills a session's program before its shim and before the supervisor.
func TestOOMScore(t *testing.T) {
	job := newJob(t, `
		read mine </proc/self/oom_score_adj; n=0 # the shim takes its own number back when we run already
		while read its </proc/$PPID/oom_score_adj; [ $its = $mine ] && [ $((n+=1)) -lt 1000 ]; do sleep 0.01; done
		printf '%s\n' $mine $its >"$T/work/scores"`)
	if o := (&Executor{Reaper: reaper}).Run(context.Background(), job, nil); o.Result != agents.Done {
		t.Fatalf("outcome %+v, want done", o)
	}
	own, _ := strconv.Atoi(read("/proc/self/oom_score_adj"))
	want := strconv.Itoa(min(own+oomMore, 1000)) + "\n" + strconv.Itoa(own)
	if got := read(job.Dir + "/scores"); got != want {
		t.Errorf("program and shim have %q, want %q", got, want)
	}
}

// Processes of an agent are less urgent than the supervisor, and leave no core files.
func TestCurbed(t *testing.T) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	nice := min(20-own+lessUrgent, 19)
	o := runJob(t, newJob(t, `nice; (nice); grep '^Max core' /proc/self/limits`))
	f := strings.Fields(o.Tail)
	if len(f) < 6 || f[0] != strconv.Itoa(nice) || f[1] != f[0] || f[6] != "0" {
		t.Errorf("the script printed %q, want twice nice %d, and no core file", o.Tail, nice)
	}
}

// An agent with its own account has no capability, and no program that it executes can have one.
func TestCapabilities(t *testing.T) {
	needRoot(t)
	job := newJob(t, `grep ^Cap /proc/self/status; grep -E '^(Groups|Umask|NoNewPrivs)' /proc/self/status`)
	job.User = "nobody"
	if o := (&Executor{Reaper: reaper}).Run(context.Background(), job, nil); o.Result != agents.Done {
		t.Fatalf("outcome %+v, want done", o)
	}
	log, err := os.ReadFile(job.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(string(log)) {
		name, value, _ := strings.Cut(line, ":")
		got[name] = strings.TrimSpace(value)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(got[set], "0") != "" || got[set] == "" {
			t.Errorf("%s is %q, want only zeros", set, got[set])
		}
	}
	if got["NoNewPrivs"] != "1" || got["Umask"] != "0077" || got["Groups"] == "" ||
		strings.HasPrefix(got["Groups"]+" ", "0 ") {
		t.Errorf("%v, want no new privileges, umask 0077, and groups without 0", got)
	}
}
