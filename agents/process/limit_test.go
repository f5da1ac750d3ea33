package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

func TestHits(t *testing.T) {
	const cut = "sh: killed by SIGKILL"
	both := agents.Limits{Memory: 8 << 30, PIDs: 512}
	failed := agents.Outcome{Result: agents.Failed, Reason: cut}
	tests := []struct {
		name   string
		hits   hits
		limits agents.Limits
		o      agents.Outcome
		want   string
	}{
		{"none", hits{}, both, failed, cut},
		{
			"its own memory",
			hits{Killed: 1, Full: 3},
			both, failed,
			cut + "; out of memory, its limit is 8G: 1 process killed",
		},
		{
			"the machine's memory",
			hits{Killed: 2},
			both, failed,
			cut + "; out of memory, the machine or the container has no more: 2 processes killed",
		},
		{"reclaimed in time", hits{Full: 3}, both, failed, cut},
		{"forks", hits{Forks: 7}, both, failed, cut + "; at its limit of 512 processes: 7 more refused"},
		{"forks at the container's limit", hits{Forks: 7}, agents.Limits{}, failed, cut},
		{
			"nothing achieved",
			hits{Killed: 1},
			both,
			agents.Outcome{Result: agents.Done},
			"out of memory, the machine or the container has no more: 1 process killed",
		},
		{"achieved", hits{Killed: 1}, both, agents.Outcome{Result: agents.Done, Claimed: true}, ""},
		{
			"cancelled",
			hits{Killed: 1},
			both,
			agents.Outcome{Result: agents.Cancelled, Reason: "issue closed"},
			"issue closed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.hits.explain(tt.o, tt.limits); got.Reason != tt.want || got.Result != tt.o.Result {
				t.Errorf("%s %q, want %q", got.Result, got.Reason, tt.want)
			}
		})
	}
}

// The session's log names each limit that is not enforced.
func TestLimitsWithoutCgroup(t *testing.T) {
	job := newJob(t, "exit 0")
	job.Limits = agents.Limits{Memory: 1 << 30, PIDs: 100}
	o := runJob(t, job)
	for _, what := range []string{"limit of memory is not enforced", "limit of processes is not enforced"} {
		if o.Result != agents.Done || strings.Count(o.Tail, what) != 1 {
			t.Errorf("%s; want done, with %q once in %q", o.Result, what, o.Tail)
		}
	}
}

// Without a cgroup, the processes of an agent with its own account are still limited, from the first one on; its shim
// is not.
func TestPIDsOfAnAccount(t *testing.T) {
	job := asStranger(t, `
		grep -h '^Max processes' /proc/self/limits
		i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done; echo too many`)
	job.Limits, job.OwnUser = agents.Limits{PIDs: 50}, true
	o := runJob(t, job)
	first, rest, _ := strings.Cut(o.Tail, "\n")
	if f := strings.Fields(first); len(f) < 4 || f[2] != "50" {
		t.Errorf("the first limit is %q, want 50", first)
	}
	if o.Result != agents.Failed || o.ExitCode == 0 || strings.Contains(rest, "too many") ||
		strings.Contains(rest, "enforced") {
		t.Errorf("60 processes: %+v, want a failure, within the limit of its account", o)
	}
	noneAlive(t, job.RunID)

	job.OwnUser, job.RunID = false, "i"+token() // another agent's processes would count
	if o = runJob(t, job); !strings.Contains(o.Tail, "limit of processes is not enforced") ||
		!strings.Contains(o.Tail, "too many") {
		t.Errorf("with a shared account: %+v, want no limit", o)
	}
}

// roomy makes a folder with a cgroup that can delegate memory and pids. It is not the machine's root cgroup, so it
// resembles a container's.
func roomy(t *testing.T) string {
	t.Helper()
	root := writableCgroup()
	if root == "" {
		t.Skip("no writable version 2 cgroup here")
	}
	for _, controller := range []string{"memory", "pids"} {
		if !slices.Contains(readWords(filepath.Join(root, "cgroup.controllers")), controller) {
			t.Skipf("%s has no %s controller", root, controller)
		}
		if err := writeKernelFile(filepath.Join(root, "cgroup.subtree_control"), "+"+controller); err != nil {
			t.Skipf("cannot delegate the %s controller of %s: %v", controller, root, err)
		}
	}
	box := filepath.Join(root, "box-"+token())
	if err := os.Mkdir(box, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(box, leafName))
		eventually(t, "the cgroup is empty", func() bool { return os.Remove(box) == nil })
	})
	return box
}

// told is the output of the helper "limited".
type told struct {
	Why     []string // reasons why limits are not enforced
	Home    string   // the supervisor's own cgroup
	Outcome agents.Outcome
}

// inBox runs a session under a separate supervisor, the only process of a cgroup.
func inBox(t *testing.T, box string, job agents.Job) (got told) {
	t.Helper()
	order, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(box)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	var p plumbing
	defer p.close()
	var out bytes.Buffer
	files, err := p.connect(Cmd{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	c, err := reaper.Start("/proc/self/exe", append(helperCommand("limited"), string(order)), &syscall.ProcAttr{
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.start(nil)
	<-c.Exit()
	_ = p.finish()
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return got
}

func limited(args []string) int {
	var job agents.Job
	if json.Unmarshal([]byte(args[0]), &job) != nil {
		return 2
	}
	if _, err := Init(); err != nil {
		return 3
	}
	r, err := NewReaper()
	if err != nil {
		return 4
	}
	cgroupRoot = writableCgroup // this process's own
	var got told
	c := Contain()
	for _, err := range []error{c.Memory, c.PIDs} {
		if err != nil {
			got.Why = append(got.Why, err.Error())
		}
	}
	_, got.Home, _ = strings.Cut(read("/proc/self/cgroup"), "0::")
	if again := Contain(); fmt.Sprint(again) != fmt.Sprint(c) {
		got.Why = append(got.Why, fmt.Sprintf("and the second time: %+v", again))
	}
	got.Outcome = (&Executor{Reaper: r}).Run(context.Background(), job, nil)
	_ = json.NewEncoder(os.Stdout).Encode(got)
	return 0
}

// eat fills that many MiB of memory, and ends.
func eat(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	for page := range slices.Chunk(make([]byte, n<<20), 4096) {
		page[0] = 1
	}
	return 0
}

// Limits bound a session in a cgroup like a container's. When a session reaches a limit, its outcome says so.
func TestLimits(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tool := self + " test-helper eat "
	tests := []struct {
		name   string
		limits agents.Limits
		script string
		want   agents.Outcome
	}{
		{
			"within",
			agents.Limits{Memory: 1 << 30, PIDs: 100},
			tool + "100; sleep 0.01 & wait",
			agents.Outcome{Result: agents.Done},
		},
		{
			"a tool's memory",
			agents.Limits{Memory: 64 << 20},
			tool + "200 && echo ate; exit 3",
			agents.Outcome{
				Result: agents.Failed, ExitCode: 3,
				Reason: "/bin/sh: exit status 3; out of memory, its limit is 64M: 1 process killed",
			},
		},
		{
			"the program's memory",
			agents.Limits{Memory: 64 << 20},
			"exec " + tool + "200",
			agents.Outcome{
				Result: agents.Failed, ExitCode: -1, Signal: "SIGKILL",
				Reason: "/bin/sh: killed by SIGKILL; out of memory, its limit is 64M: 1 process killed",
			},
		},
		{
			"processes",
			agents.Limits{PIDs: 16},
			"for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 100 & done; echo ate",
			agents.Outcome{
				Result: agents.Failed, ExitCode: 2,
				Reason: "/bin/sh: exit status 2; at its limit of 16 processes: 1 more refused",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			box, job := roomy(t), newJob(t, tt.script) // a cgroup that has delegated its controllers accepts no process
			job.Limits = tt.limits
			got := inBox(t, box, job)
			noneAlive(t, job.RunID)
			if got.Why != nil || !strings.HasSuffix(got.Home, "/"+filepath.Base(box)+"/"+leafName) {
				t.Errorf("limits are not enforced: %q, the supervisor is in %s", got.Why, got.Home)
			}
			o := agents.Outcome{
				Result: got.Outcome.Result, ExitCode: got.Outcome.ExitCode, Signal: got.Outcome.Signal,
				Reason: got.Outcome.Reason,
			}
			if diff := cmp.Diff(tt.want, o); diff != "" {
				t.Errorf("(-want +got):\n%s\nlog: %s", diff, got.Outcome.Tail)
			}
			if strings.Contains(got.Outcome.Tail, "ate") || strings.Contains(got.Outcome.Tail, "enforced") {
				t.Errorf("the log is %q, want the limit enforced", got.Outcome.Tail)
			}
			if left, _ := filepath.Glob(box + "/disinto-*"); len(left) > 0 {
				t.Errorf("cgroups left behind: %q", left)
			}
		})
	}
}

// A cgroup with other processes cannot delegate controllers: no process is moved, the reason is returned, and
// sessions run.
func TestLimitsAmongOthers(t *testing.T) {
	box := roomy(t)
	other := spawn(t, "exec sleep 1000")
	if err := writeKernelFile(filepath.Join(box, "cgroup.procs"), itoa(other.PID)); err != nil {
		t.Fatal(err)
	}
	job := newJob(t, "exit 0")
	job.Limits = agents.Limits{Memory: 64 << 20}
	got := inBox(t, box, job)
	if len(got.Why) != 2 || !strings.Contains(got.Why[0], "the cgroup has other processes") ||
		!strings.HasSuffix(got.Home, "/"+filepath.Base(box)) {
		t.Errorf("reasons %q, and the supervisor is in %s; want two reasons, and the supervisor not moved", got.Why, got.Home)
	}
	if o := got.Outcome; o.Result != agents.Done || !strings.Contains(o.Tail, "limit of memory is not enforced") {
		t.Errorf("outcome %+v, want done with the warning about the limit", o)
	}
	_ = syscall.Kill(other.PID, syscall.SIGKILL)
	<-other.Exit()
}
