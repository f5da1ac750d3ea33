package process

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// A session's program is more likely to be killed for memory than its shim and we are.
func TestOOMScore(t *testing.T) {
	job := newJob(t, `cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj >"$T/work/scores"`)
	if o := (&Executor{Reaper: reaper}).Run(context.Background(), job, nil); o.Result != agents.Done {
		t.Fatalf("%+v", o)
	}
	own, _ := strconv.Atoi(read("/proc/self/oom_score_adj"))
	want := strconv.Itoa(min(own+oomMore, 1000)) + "\n" + strconv.Itoa(own)
	if got := read(job.Dir + "/scores"); got != want {
		t.Errorf("program and shim have %q, want %q", got, want)
	}
}

// An agent with an account of its own has no capability, and nothing that it executes can have one.
func TestCapabilities(t *testing.T) {
	needRoot(t)
	job := newJob(t, `grep ^Cap /proc/self/status; grep -E '^(Groups|Umask|NoNewPrivs)' /proc/self/status`)
	job.User = "nobody"
	if o := (&Executor{Reaper: reaper}).Run(context.Background(), job, nil); o.Result != agents.Done {
		t.Fatalf("%+v", o)
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
			t.Errorf("%s is %q", set, got[set])
		}
	}
	if got["NoNewPrivs"] != "1" || got["Umask"] != "0077" || got["Groups"] == "" || strings.HasPrefix(got["Groups"]+" ", "0 ") {
		t.Errorf("%v", got)
	}
}
