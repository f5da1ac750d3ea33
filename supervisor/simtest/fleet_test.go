package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// far is the host of dev-elsewhere, as a hub reads it.
type far struct {
	calls  atomic.Int64
	answer func() ([]byte, error)
}

func (f *far) read(context.Context, threads.Host) ([]byte, error) {
	f.calls.Add(1)
	return f.answer()
}

// says returns the export of the host now, about an agent in one state.
func says(instance string, state threads.LoadState, begun ...string) []byte {
	now := time.Now()
	d := fleet.Document{Format: fleet.Format, Instance: instance, UpdatedAt: now, Begun: begun, Agents: []fleet.Agent{{
		Agent: "dev-elsewhere", Login: "dev-elsewhere", Thread: "llama",
		Roles:   []fleet.Role{{Name: "dev", On: agents.OnIssue}},
		Backend: threads.Local, State: state, Idle: state == threads.LoadIdle, IdleSince: now.Add(-time.Hour),
	}}}
	head, _ := json.Marshal(fleet.Export{ExportedAt: now})
	text, _ := json.Marshal(d)
	return append(append(head, '\n'), text...)
}

// hubWorld is a hub whose agents have no work, and another host with n issues that any agent may do.
func hubWorld(t testing.TB, n int, f *far) (*World, func(*supervisor.Supervisor)) {
	w := night(t, n)
	for i := range n {
		w.Forge.Edit(int64(i+1), func(is *forge.Issue) { is.Assignees = []string{"dev-elsewhere"} })
	}
	w.Config.Fleet = threads.Fleet{Hub: true, Hosts: []threads.Host{{Name: "iris", User: "disinto", Address: "iris.lan"}}}
	return w, func(s *supervisor.Supervisor) { s.ReadHost = f.read }
}

// A hub looks every five minutes, with one call to each host, and takes from a busy agent elsewhere for its own what
// it would take within one host. What was moved its own tick starts.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive), nil }}
		w, reads := hubWorld(t, 9, f)
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		time.Sleep(time.Hour + 10*time.Second)
		if got := fmt.Sprint(w.stolen()); got != "[6 7 8 9]" {
			t.Errorf("moved: %s, want the four newest: nine wait there, and five stay", got)
		}
		who := w.implementers()
		for n := int64(6); n <= 9; n++ {
			if is := w.Forge.Get(n); len(who[n]) != 1 || !is.Has("fleet:iris:stolen") {
				t.Errorf("#%d was implemented by %v: %+v", n, who[n], is)
			}
		}
		// One when it started, then one for each of twelve looks.
		if n := f.calls.Load(); n != 13 {
			t.Errorf("%d calls in an hour, want 13", n)
		}
		s := l.Fleet()
		if len(s.Cycles) != fleet.CycleLimit || s.Cycles[0].Calls != 1 || len(s.Cycles[0].Moves) != 0 {
			t.Errorf("looks: %+v", s.Cycles)
		}
		first := s.Cycles[len(s.Cycles)-1]
		if len(first.Moves) != 4 || first.Moves[0].From != "iris/dev-elsewhere" || first.Moves[0].State != fleet.MoveDone {
			t.Errorf("first look: %+v", first)
		}
		l.Stop()
	})
}

// The other way round: an idle agent elsewhere gets what waits behind ours. Nothing is started here for it.
func TestHubGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadIdle), nil }}
		w, reads := hubWorld(t, 8, f)
		w.Config.Agents[1].Token = "" // dev-qwen
		for n := range int64(8) {
			w.Forge.Edit(n+1, func(is *forge.Issue) { is.Assignees = []string{"dev-coder"} })
		}
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		time.Sleep(6 * time.Minute)
		if got := fmt.Sprint(w.stolen()); got != "[7 8]" {
			t.Errorf("moved: %s", got)
		}
		for _, n := range []int64{7, 8} {
			if is := w.Forge.Get(n); fmt.Sprint(is.Assignees) != "[dev-elsewhere]" {
				t.Errorf("#%d is assigned to %v", n, is.Assignees)
			}
		}
		l.Stop()
	})
}

// What an agent elsewhere has a workspace for stays with it, which only its own host knows.
func TestHubLeavesWhatIsBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive, Repo+"#9", Repo+"#7"), nil }}
		w, reads := hubWorld(t, 9, f)
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		time.Sleep(6 * time.Minute)
		if got := fmt.Sprint(w.stolen()); got != "[4 5 6 8]" {
			t.Errorf("moved: %s", got)
		}
		why := ""
		for _, st := range l.Fleet().Cycles[0].Stays {
			if st.Number == 9 {
				why = st.Why
			}
		}
		if why != "iris worked on it" {
			t.Errorf("#9 stays: %q", why)
		}
		l.Stop()
	})
}

// N1: with four other hosts a look that moves something is four calls, and nothing is asked twice.
func TestHubCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive), nil }}
		w, reads := hubWorld(t, 9, f)
		for _, name := range []string{"loom", "spark", "zoe"} {
			w.Config.Fleet.Hosts = append(w.Config.Fleet.Hosts, threads.Host{Name: name, User: "disinto", Address: name})
		}
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		time.Sleep(6 * time.Minute)
		s := l.Fleet()
		if len(s.Cycles) != 1 || s.Cycles[0].Calls != 4 || len(s.Cycles[0].Moves) == 0 || f.calls.Load() != 8 {
			t.Errorf("%d calls, four of them at the start: %+v", f.calls.Load(), s.Cycles)
		}
		l.Stop()
	})
}

// K3, K4, I6: a host that says nothing useful takes no part, with its reason, which the log has once; when it does
// again, it takes part again.
func TestHubUnknownHost(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func() ([]byte, error)
		why    string
	}{
		"unreachable": {
			func() ([]byte, error) { return nil, errors.New("ssh: exit status 255: No route to host") },
			"ssh: exit status 255: No route to host",
		},
		"hangs": {func() ([]byte, error) { return nil, context.DeadlineExceeded }, "no answer within 10s"},
		"torn": {
			func() ([]byte, error) { return says("other", threads.LoadActive)[:99], nil },
			"its status cannot be read: unexpected EOF",
		},
		"stopped": {func() ([]byte, error) {
			text := says("other", threads.LoadActive)
			time.Sleep(3 * time.Minute) // as an export would, which says when it was made
			head, _ := json.Marshal(fleet.Export{ExportedAt: time.Now()})
			return append(head, text[strings.IndexByte(string(text), '\n'):]...), nil
		}, "its status is 3m0s old: does its supervisor run?"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{answer: tt.answer}
				w, reads := hubWorld(t, 9, f)
				l := w.Start(func(l *Life) { reads(l.Supervisor) })
				time.Sleep(30 * time.Minute)
				if got := w.stolen(); len(got) > 0 {
					t.Errorf("moved: %v", got)
				}
				s := l.Fleet()
				if h := s.Hosts[1]; h.Known || h.Why != tt.why || len(h.Agents) > 0 {
					t.Errorf("host %+v, want unknown: %s", h, tt.why)
				}
				if got := s.Cycles[0].Unknown; fmt.Sprint(got) != "[iris: "+tt.why+"]" {
					t.Errorf("unknown: %q", got)
				}
				if n := strings.Count(w.Log.String(), "host iris takes no part: "+tt.why); n != 1 {
					t.Errorf("said %d times", n)
				}
				l.Stop()
			})
		})
	}
}

// The same supervisor under two names, and an account that is no agent's as far as we know: nothing is taken from
// either.
func TestHubDistrusts(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*threads.Config)
		why  string
	}{
		"not a bot": {
			func(c *threads.Config) { c.Forge.Bots = nil },
			"[iris/dev-elsewhere: its account dev-elsewhere is not in [forge] bots]",
		},
		"one of ours": {
			func(c *threads.Config) { c.Agents[1].Login = "dev-elsewhere" },
			"[iris/dev-elsewhere: has the account of dev-qwen]",
		},
		"under two names": {func(c *threads.Config) {
			c.Fleet.Hosts = append(c.Fleet.Hosts, threads.Host{Name: "zoe", User: "u", Address: "iris"})
		}, "[zoe: it is the same supervisor as iris]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive), nil }}
				w, reads := hubWorld(t, 3, f)
				tt.edit(w.Config)
				l := w.Start(func(l *Life) { reads(l.Supervisor) })
				time.Sleep(6 * time.Minute)
				if s := l.Fleet(); len(s.Cycles) == 0 || fmt.Sprint(s.Cycles[0].Unknown) != tt.why {
					t.Errorf("%+v, want %s", s.Cycles, tt.why)
				}
				l.Stop()
			})
		})
	}
}

// The file says that an agent is not idle before its program runs, that it is when it has ended, and nothing after
// the end of the supervisor.
func TestFleetFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		read := func(agent string) (a fleet.Agent, d fleet.Document) {
			text, err := os.ReadFile(filepath.Join(w.Dir, fleet.FileName))
			if err == nil {
				err = json.Unmarshal(text, &d)
			}
			if err != nil {
				t.Error(err)
			}
			for _, a := range d.Agents {
				if a.Agent == agent {
					return a, d
				}
			}
			t.Errorf("%s is not in the file", agent)
			return a, d
		}
		starts := 0
		work := w.Exec.Script
		w.Exec.Script = func(job agents.Job, n int) Script {
			starts++
			a, _ := read(job.Agent)
			if a.Idle || !a.IdleSince.IsZero() || a.State != threads.LoadActive || !strings.HasPrefix(a.Active, Repo) {
				t.Errorf("%s is started, and in the file: %+v", job.Agent, a)
			}
			return work(job, n)
		}
		l := w.Start()
		time.Sleep(time.Minute)
		since, _ := read("dev-coder")
		if !since.Idle || since.PendingCount != 0 {
			t.Errorf("nothing to do: %+v", since)
		}
		time.Sleep(10 * time.Minute) // nothing happens, and the file is written all the same
		later, d := read("dev-coder")
		if !later.IdleSince.Equal(since.IdleSince) || time.Since(d.UpdatedAt) > fleet.Pulse {
			t.Errorf("ten minutes later: %+v, of %s", later, d.UpdatedAt)
		}
		for range 3 {
			n := w.Forge.Issue("work")
			w.Forge.Edit(n, func(is *forge.Issue) { is.Assignees = []string{"dev-coder"} })
		}
		time.Sleep(5 * time.Minute)
		a, d := read("dev-coder")
		if a.State != threads.LoadActive || a.PendingCount != 2 || fmt.Sprint(d.Begun) != "["+a.Active+"]" {
			t.Errorf("with three issues: %+v, begun %v", a, d.Begun)
		}
		time.Sleep(time.Hour)
		a, _ = read("dev-coder")
		if !a.Idle || !a.IdleSince.After(since.IdleSince) || a.LastProgressAt.IsZero() || starts < 6 {
			t.Errorf("after %d sessions: %+v", starts, a)
		}
		w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
		time.Sleep(5 * time.Minute)
		if a, _ := read("dev-coder"); a.Idle || a.State != threads.LoadGated {
			t.Errorf("without a forge: %+v", a)
		}
		l.Stop()
		if _, err := os.Stat(filepath.Join(w.Dir, fleet.FileName)); !os.IsNotExist(err) {
			t.Errorf("the file is left: %v", err)
		}
	})
}

// A panic while agents are told of, or while a hub looks, ends nothing: the file goes, and both work again when that
// is over.
func TestHubPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive), nil }}
		w, reads := hubWorld(t, 9, f)
		var bad atomic.Bool
		l := w.Start(func(l *Life) {
			reads(l.Supervisor)
			l.Room = func(string) threads.Room {
				if bad.Load() {
					panic("planned")
				}
				return threads.Room{Memory: 1 << 40, Disk: 1 << 40}
			}
		})
		file := filepath.Join(w.Dir, fleet.FileName)
		time.Sleep(4*time.Minute + 50*time.Second)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		bad.Store(true)
		time.Sleep(2 * time.Minute)
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file is left: %v", err)
		}
		bad.Store(false)
		time.Sleep(6 * time.Minute)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(w.stolen()); got != "[6 7 8 9]" {
			t.Errorf("moved: %s", got)
		}
		l.Stop()
	})
}
