package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Ask asks all hosts at once. Two hanging hosts cost the deadline once, and do not delay the others. A supervisor
// counts under one name only.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts []threads.Host
		for _, name := range []string{"hangs", "iris", "again", "mute", "ours", "also"} {
			hosts = append(hosts, threads.Host{Name: name})
		}
		read := func(ctx context.Context, h threads.Host) ([]byte, error) {
			switch h.Name {
			case "hangs", "also":
				<-ctx.Done()
				return nil, ctx.Err()
			case "mute":
				return nil, errors.New("ssh: exit status 255:\x1b[31m\nno route")
			}
			d := Document{Format: Format, Instance: "i", UpdatedAt: time.Now()}
			if h.Name == "ours" {
				d.Instance = "own"
			}
			head, _ := json.Marshal(Export{ExportedAt: time.Now()})
			text, _ := json.Marshal(d)
			return append(head, text...), nil
		}
		began := time.Now()
		var got []string
		for _, r := range FetchAll(t.Context(), read, hosts, "own") {
			got = append(got, fmt.Sprintf("%s: %s, %s, %t", r.Host.Name, r.At.Sub(began), r.Why, r.Doc != nil))
		}
		want := []string{
			"hangs: 0s, no answer within 10s, false", "iris: 0s, , true",
			"again: 0s, it is the same supervisor as iris, false",
			"mute: 0s, ssh: exit status 255: [31m no route, false", "ours: 0s, it is the same supervisor as this host, false",
			"also: 0s, no answer within 10s, false",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || time.Since(began) != FetchTime {
			t.Errorf("after %s\ngot  %q\nwant %q", time.Since(began), got, want)
		}
	})
}

// The file is written on request, after a change, and at its pulse. It is removed when there is nothing to report,
// when it cannot be written, and at the end.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), FileName)
		var name atomic.Value
		var changes, made atomic.Int64
		say := func(what string) {
			name.Store(what)
			changes.Add(1)
		}
		say("a")
		f := StartFile(path, func() *Document {
			made.Add(1)
			if name.Load() == "" {
				return nil
			}
			return &Document{UpdatedAt: time.Now(), Agents: []Agent{{Agent: name.Load().(string), UpdatedAt: time.Now()}}}
		}, changes.Load, hclog.NewNullLogger())
		began := time.Now()
		check := func(want string, updated time.Duration) {
			t.Helper()
			synctest.Wait()
			var d Document
			text, err := os.ReadFile(path)
			if want == "" {
				if !os.IsNotExist(err) {
					t.Errorf("%v: the file exists: %s", err, text)
				}
				return
			}
			if err := json.Unmarshal(text, &d); err != nil || d.Agents[0].Agent != want || d.UpdatedAt.Sub(began) != updated {
				t.Errorf("got %v, %s; want %s, updated after %s", err, text, want, updated)
			}
		}
		check("a", 0)
		time.Sleep(Pulse - time.Second)
		check("a", 0)
		time.Sleep(time.Second)
		check("a", Pulse)
		if n := made.Load(); n != 2 { // each is a decision of the scheduler
			t.Errorf("%d documents were made while nothing changed, want 2", n)
		}
		say("b")
		time.Sleep(fileRest)
		check("b", Pulse+fileRest)
		time.Sleep(time.Second)
		say("c")
		f.Write()
		check("c", Pulse+fileRest+time.Second)
		say("")
		f.Write()
		check("", 0)
		say("d")
		f.Write()
		check("d", Pulse+fileRest+time.Second)
		if err := os.MkdirAll(path+".new/full", 0o700); err != nil { // like a full disk
			t.Fatal(err)
		}
		say("e")
		f.Write()
		check("", 0)
		f.End()
		f.Write()
		check("", 0)
	})
}

// An unchanged document is not encoded again: its text would take an allocation for each time in it.
func TestFileUnchanged(t *testing.T) {
	d := &Document{UpdatedAt: time.Now(), Agents: make([]Agent, 100)}
	for i := range d.Agents {
		d.Agents[i] = Agent{Agent: "dev-a", Login: "dev-a", Skills: []string{"go"}, StateWhy: "held", UpdatedAt: d.UpdatedAt}
	}
	f := &File{
		path: filepath.Join(t.TempDir(), FileName), document: func() *Document { return d },
		changes: func() int64 { return 0 }, log: hclog.NewNullLogger(),
	}
	f.update()
	if n := testing.AllocsPerRun(10, f.update); n > 50 {
		t.Errorf("%v allocations for 100 agents, want at most 50", n)
	}
}

// Describe reports only known facts about idle agents: while the forge cannot be read, none is idle.
func TestDescribe(t *testing.T) {
	config := &threads.Config{
		Agents: []agents.Agent{{Name: "dev-a", Login: "a", Roles: []string{"dev", "review"}, Thread: "t", Token: "x"}},
		Roles: []agents.Role{
			{Name: "dev", On: agents.OnIssue, Command: []string{"x"}},
			{Name: "review", On: agents.OnReview, Label: "l", Command: []string{"x"}},
		},
		Threads: []threads.Thread{{Name: "t", Backend: threads.Local, Slots: 1, MaxSessions: 1, Agents: []string{"dev-a"}}},
	}
	snap := threads.Snapshot{Now: noon, Config: config}
	h := NewHub(nil, nil, nil)
	h.Due(config, noon.Add(-time.Hour))
	got := h.Describe(snap, false, map[string]time.Time{"dev-a": noon.Add(-time.Minute)})
	want := Agent{
		Agent: "dev-a", Login: "a", Role: "dev", Thread: "t",
		Roles:   []Role{{"dev", agents.OnIssue, ""}, {"review", agents.OnReview, "l"}},
		Backend: threads.Local, Skills: []string{}, State: threads.LoadIdle, Idle: true, IdleSince: noon.Add(-time.Hour),
		LastProgressAt: noon.Add(-time.Minute), UpdatedAt: noon,
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", []Agent{want}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	want.Idle, want.IdleSince, want.LastProgressAt = false, time.Time{}, time.Time{}
	want.State, want.StateWhy = threads.LoadGated, "its supervisor has not read the forge"
	if got := h.Describe(snap, true, nil); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", []Agent{want}) {
		t.Errorf("unread:\ngot  %+v\nwant %+v", got, want)
	}
}
