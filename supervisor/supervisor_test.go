package supervisor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// A start removes what only older versions kept in the state directory.
func TestOldFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		old := filepath.Join(w.Dir, "eta.json")
		if err := os.WriteFile(old, []byte("[]"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Start()
		time.Sleep(time.Minute)
		if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want it removed", old, err)
		}
	})
}

// The problem of a full disk ends when the disk has room, even if nothing has to be written meanwhile.
func TestDiskFullEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(time.Minute)
		empty := l.FillDisk(t)
		w.Until(2*time.Hour, "its end cannot be written", func() bool { return len(l.Document().Problems) == 1 })
		if got := tell(t, l, "/v1/pause", `{}`); !strings.HasPrefix(got, "503") {
			t.Errorf("a pause on a full disk: got %s, want 503", got)
		}
		empty()
		if got := tell(t, l, "/v1/pause", `{}`); strings.HasPrefix(got, "503") { // the pause keeps everything quiet
			t.Errorf("a pause on a disk with room: got %s", got)
		}
		again := l.FillDisk(t)
		if got := tell(t, l, "/v1/resume", `{}`); !strings.HasPrefix(got, "503") {
			t.Errorf("a resume on a full disk: got %s, want 503", got)
		}
		again()
		// A slow world plans every three minutes, and each plan tries the journal again.
		w.Until(4*time.Minute, "no problem is left", func() bool { return len(l.Document().Problems) == 0 })
		l.Stop()
	})
}

// While the journal cannot be written, nothing starts. Ends count meanwhile, and are written once the disk has room.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(time.Minute)
		empty := l.FillDisk(t)
		w.Forge.Issue("two")
		time.Sleep(simtest.Size(30*time.Minute, 15*time.Minute))
		runs := w.Exec.Runs()
		if len(runs) != 1 || runs[0].Outcome.Result != agents.Done {
			t.Errorf("while the disk was full: got sessions %+v, want 1 done", runs)
		}
		d := l.Document()
		if len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "cannot write the journal") || len(d.Recent) != 1 ||
			len(d.Sessions) != 0 {
			t.Errorf("while the disk was full: got problems %q, %d recent, %d sessions", d.Problems, len(d.Recent),
				len(d.Sessions))
		}
		if left := w.Forge.Claimed(); len(left) > 0 {
			t.Errorf("while the disk was full: got claims %v, want none", left)
		}
		if len(d.Alarms) != 1 || d.Alarms[0].Code != control.Journal {
			t.Errorf("while the journal's descriptor was bad: got alarms %+v, want one that says so", d.Alarms)
		}
		if n := strings.Count(w.Log.String(), "cannot write the journal"); n != 1 {
			t.Errorf("got %d log lines about the journal, want 1", n)
		}
		empty()
		w.Until(35*time.Second, "work goes on", func() bool { return len(w.Exec.Runs()) > 1 })
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		time.Sleep(time.Minute)
		wantReplay(t, l)
		if d := l.Document(); len(d.Problems) > 0 {
			t.Errorf("after the disk had room: got problems %q, want none", d.Problems)
		}
		l.Stop()
		w.Check()
	})
}

// After a night full of events the journal replays to the same ledger.
func TestReplayIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		last := int64(0)
		for i := range simtest.Size(12, 6) {
			if i%3 == 0 {
				last = 0
			}
			if last == 0 {
				last = w.Forge.Issue(fmt.Sprint("issue ", i))
			} else {
				last = w.Forge.Issue(fmt.Sprint("issue ", i), last)
			}
		}
		results := []agents.Result{agents.Failed, agents.Limited, agents.BackendDown, agents.NoProgress, agents.Stalled}
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			switch {
			case job.Kind == agents.KindReview && n == 1 && job.Number%2 == 0:
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			case n <= int(job.Number)%3:
				r := results[int(job.Number+int64(n))%len(results)]
				s = simtest.Script{Takes: time.Minute, Outcome: agents.Outcome{Result: r, Reason: "so it is", Claimed: true}}
			}
			return s
		}
		l := w.Start()
		w.Until(3*time.Hour, "everything is merged", w.Forge.Done)
		time.Sleep(2 * time.Hour) // scans show ended items for an hour, and history is dropped every ten minutes
		wantReplay(t, l)
		// Everything is closed, so a month of such days leaves nothing behind.
		if left := l.Remembered(); len(left) > 0 {
			t.Errorf("the ledger still remembers %v, want nothing", left)
		}
		l.Stop()
		w.Check()
	})
}

// Without a valid configuration the supervisor stays up, shows the error, and starts work once the configuration is
// valid.
func TestNoConfigAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		var client supervisor.Forge
		l := w.Start(func(l *simtest.Life) {
			client, l.Forge = l.Forge, nil
			l.Config, l.ConfigError = nil, errors.New("factory.toml:3: unknown key \"thread\"")
		})
		time.Sleep(10 * time.Minute)
		d := l.Document()
		if d.Config.Error != "factory.toml:3: unknown key \"thread\"" || d.Config.Generation != 0 || len(w.Exec.Runs()) != 0 {
			t.Errorf("without a configuration: got %+v, %d sessions", d.Config, len(w.Exec.Runs()))
		}
		l.Reload(w.Config, client)
		w.Until(time.Hour, "merged", w.Forge.Done)
		if d := l.Document(); d.Config.Error != "" || d.Config.Generation != 1 {
			t.Errorf("with a configuration: got %+v", d.Config)
		}
		l.SetError(errors.New("factory.toml:4: so bad"))
		if d := l.Document(); d.Config.Error != "factory.toml:4: so bad" || d.Config.Generation != 1 {
			t.Errorf("with a bad file later: got %+v", d.Config)
		}
		l.Stop()
		w.Check()
	})
}

// A reload applies to later starts only.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Tokens["token-of-dev-qwen"] = "dev-bot"
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		l := w.Start()
		time.Sleep(5 * time.Minute)
		if n := len(w.Exec.Runs()); n != 1 {
			t.Fatalf("got %d sessions, want 1: dev-qwen is held", n)
		}
		next := *w.Config
		next.Agents = append([]agents.Agent(nil), w.Config.Agents...)
		next.Agents[1].Login = "dev-bot"
		next.Threads = append([]threads.Thread(nil), w.Config.Threads...)
		next.Threads = append(next.Threads, threads.Thread{
			Name: "late", Backend: threads.Local, Slots: 1, MaxSessions: 1, Interval: time.Second, IdleInterval: time.Second,
		})
		l.Reload(&next, nil)
		time.Sleep(time.Minute)
		runs := w.Exec.Runs()
		if len(runs) != 2 || runs[1].Job.Agent != "dev-qwen" || !runs[0].End.IsZero() {
			t.Errorf("after the reload: got sessions %+v, want a second one by dev-qwen", runs)
		}
		if d := l.Document(); len(d.Threads) != 3 || d.Config.Generation != 2 {
			t.Errorf("after the reload: got %d threads, generation %d, want 3 and 2", len(d.Threads), d.Config.Generation)
		}
		// A removed thread finishes its sessions and starts nothing.
		gone := *w.Config
		gone.Threads = w.Config.Threads[:1]
		gone.Agents = w.Config.Agents[2:]
		l.Reload(&gone, nil)
		w.Forge.Issue("three")
		time.Sleep(20 * time.Minute)
		if n := len(w.Exec.RunsOf(agents.KindIssue, 3)); n != 0 {
			t.Errorf("a removed thread started %d sessions, want 0", n)
		}
		for _, r := range w.Exec.Runs() {
			if r.Outcome.Result != agents.Done {
				t.Errorf("%s #%d: got %+v, want done", r.Job.Kind, r.Job.Number, r.Outcome)
			}
		}
		l.Stop()
		w.Check()
	})
}

// real returns a supervisor outside a bubble, on a real socket, whose forge answers at once.
func real(t *testing.T, dir string, change func(*supervisor.Supervisor)) (s *supervisor.Supervisor, w *simtest.World,
	stop func() error,
) {
	t.Helper()
	w = simtest.New(t)
	w.Forge.Latency = 0
	s = &supervisor.Supervisor{
		Forge: w.Forge.Client(), Executor: w.Exec, Config: w.Config, StateDir: dir, Version: "1.2.3",
	}
	if change != nil {
		change(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var once error
	done := false
	stop = func() error {
		cancel()
		if !done {
			once, done = <-ended, true
		}
		return once
	}
	t.Cleanup(func() { _ = stop() })
	return s, w, stop
}

func socketClient(dir string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(dir, "disinto.sock"))
	}}}
}

// eventually polls until a condition holds, with a deadline that only a bug exceeds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timed out waiting for " + what)
		}
	}
}

func get(t *testing.T, c *http.Client, path string) (int, string) {
	t.Helper()
	resp, err := c.Get("http://disinto" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestSocket(t *testing.T) {
	dir := t.TempDir()
	// A dead supervisor left its socket.
	if err := os.WriteFile(filepath.Join(dir, "disinto.sock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, w, stop := real(t, dir, nil)
	w.Forge.Issue("two", w.Forge.Issue("one"))
	c := socketClient(dir)
	eventually(t, "an answer", func() bool {
		resp, err := c.Get("http://disinto/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	for _, name := range []string{"disinto.sock", "journal.jsonl", "lock", "instance"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, %v, want 0600", name, info.Mode(), err)
		}
	}
	var d control.Document
	eventually(t, "a session", func() bool {
		_, body := get(t, c, "/v1/state")
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatalf("/v1/state: %v in %s", err, body)
		}
		return len(d.Sessions) == 1 && d.Sessions[0].State == threads.Running && len(d.Queue) == 1
	})
	if x := d.Sessions[0]; x.Agent != "dev-coder" || x.Number != 1 || x.Thread != "llama" || x.Attempt != 1 ||
		x.Title != "one" {
		t.Errorf("got session %+v", x)
	}
	if q := d.Queue[0]; q.Number != 2 || q.Code != threads.BlockerOpen || q.Why != "blocked by johba/harb#1" {
		t.Errorf("got queue entry %+v", q)
	}
	if d.Version != "1.2.3" || d.PID != os.Getpid() || len(d.Agents) != 4 ||
		d.Threads[1].Slots[0].Agents[0] != "dev-coder" {
		t.Errorf("got document %+v", d)
	}
	for _, tt := range []struct {
		path   string
		status int
		says   string
	}{
		{"/v1/why?ref=2", http.StatusOK, "waits: blocked by johba/harb#1"},
		{"/v1/why?ref=dev-codr", http.StatusNotFound, "did you mean dev-coder?"},
		{"/v1/why?ref=johba/harb%232", http.StatusOK, "waits: blocked by johba/harb#1"},
		{"/v1/history?agent=dev-codr", http.StatusNotFound, "did you mean dev-coder?"},
		{"/v1/history?agent=dev-coder", http.StatusOK, "sessions"},
		{"/v1/history?repo=johba/hrb", http.StatusNotFound, "none of the repositories"},
		{"/v1/why?ref=99", http.StatusNotFound, `{"error":"cannot explain johba/harb#99`},
		{"/v1/why?ref=x", http.StatusNotFound, `{"error":"cannot explain`},
		{"/v1/why", http.StatusNotFound, `{"error":"cannot explain`},
		{"/v1/nothing", http.StatusNotFound, ""},
	} {
		if status, body := get(t, c, tt.path); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: got %d %s, want %d %s", tt.path, status, body, tt.status, tt.says)
		}
	}
	// After the supervisor has stopped, the file has its last status.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "status.json"))
	if err != nil || json.Unmarshal(text, &d) != nil || len(d.Recent) != 1 || d.Recent[0].Outcome != agents.Cancelled {
		t.Errorf("status.json: %v, got %s", err, text)
	}
	if info, err := os.Stat(filepath.Join(dir, "status.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("status.json: got mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestEvents(t *testing.T) {
	s, w, _ := real(t, t.TempDir(), nil)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	resp, err := http.Get(server.URL + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got content type %q, want text/event-stream", got)
	}
	w.Exec.Script = func(job agents.Job, n int) simtest.Script {
		script := w.Work(job, n)
		script.Takes = 0
		return script
	}
	w.Forge.Issue("two", w.Forge.Issue("one"))
	s.Reload(w.Config, nil) // wakes the loops
	in := bufio.NewScanner(resp.Body)
	var seen []string
	for in.Scan() && !strings.Contains(strings.Join(seen, " "), "merged 4") {
		name, ok := strings.CutPrefix(in.Text(), "event: ")
		if !ok || !in.Scan() {
			continue
		}
		var data struct {
			Number  int64         `json:"number"`
			Outcome agents.Result `json:"outcome"`
			Code    threads.Code  `json:"code"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(in.Text(), "data: ")), &data); err != nil {
			t.Fatalf("%v in the event %s", err, in.Text())
		}
		seen = append(seen, strings.TrimSpace(fmt.Sprint(name, " ", data.Number, " ", data.Outcome, data.Code)))
	}
	if !slices.Contains(seen, "held 2 blocked") { // in any order: each thread decides for itself
		t.Errorf("got events %v, want one that #2 is held", seen)
	}
	want := []string{
		"claimed 1", "started 1", "ended 1 done", "claimed 3", "started 3", "ended 3 done", "merged 3",
		"claimed 2", "merged 4",
	}
	for _, e := range seen {
		if len(want) > 0 && e == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("these events are missing, in order: %v\ngot %v", want, seen)
	}
}

func TestSocketPathTooLong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	_, _, stop := real(t, dir, nil)
	eventually(t, "the journal", func() bool { _, err := os.Stat(filepath.Join(dir, "journal.jsonl")); return err == nil })
	if err := stop(); err == nil || !strings.Contains(err.Error(), "use a shorter --state") {
		t.Errorf("Run returned %v, want the advice to use a shorter --state", err)
	}
}

func TestOneSupervisor(t *testing.T) {
	dir := t.TempDir()
	_, _, _ = real(t, dir, nil)
	c := socketClient(dir)
	eventually(t, "the first one", func() bool {
		resp, err := c.Get("http://disinto/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	_, w, stop := real(t, dir, nil)
	err := stop()
	if want := fmt.Sprintf("pid %d already works on %s", os.Getpid(), dir); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("the second Run returned %v, want %q", err, want)
	}
	if n := w.Forge.Requests(); n > 0 {
		t.Errorf("the second supervisor made %d requests, want 0", n)
	}
	if status, _ := get(t, c, "/healthz"); status != http.StatusOK {
		t.Error("the second supervisor took the socket")
	}
}

// keeper is an executor with its own Unreported.
type keeper struct {
	supervisor.Executor
	kept func(ctx context.Context, instance string) ([]string, error)
}

func (k keeper) Unreported(ctx context.Context, instance string) ([]string, error) {
	return k.kept(ctx, instance)
}

// The processes of an earlier supervisor are ended before the first request to the forge.
func TestEndStale(t *testing.T) {
	ended := make(chan struct{})
	dir := t.TempDir()
	_, w, stop := real(t, dir, func(s *supervisor.Supervisor) {
		s.Executor = keeper{s.Executor, func(ctx context.Context, instance string) ([]string, error) {
			if text, err := os.ReadFile(filepath.Join(dir, "instance")); err != nil ||
				strings.TrimSpace(string(text)) != instance {
				t.Errorf("Unreported got instance %q, the file has %q, %v", instance, text, err)
			}
			select {
			case <-ended:
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
	})
	w.Forge.Issue("one")
	c := socketClient(dir)
	eventually(t, "an answer", func() bool {
		resp, err := c.Get("http://disinto/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	if n := w.Forge.Requests(); n > 0 {
		t.Errorf("got %d requests before the old processes were gone, want 0", n)
	}
	close(ended)
	eventually(t, "a session", func() bool { return len(w.Exec.Runs()) > 0 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}
