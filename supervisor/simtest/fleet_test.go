package simtest

import (
	"bytes"
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

// far is dev-elsewhere's host, as a hub reads it.
type far struct {
	calls  atomic.Int64
	answer func() ([]byte, error)
}

func (f *far) read(context.Context, threads.Host) ([]byte, error) {
	f.calls.Add(1)
	return f.answer()
}

// says returns the host's current export, with its agent in a state.
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

// hubWorld is a hub whose agents have no work. Another host has n issues that any agent may do.
func hubWorld(t testing.TB, n int, f *far) (*World, func(*supervisor.Supervisor)) {
	w := night(t, n)
	for i := range n {
		w.Forge.Edit(int64(i+1), func(is *forge.Issue) { is.Assignees = []string{"dev-elsewhere"} })
	}
	w.Config.Fleet = threads.Fleet{Hub: true, Hosts: []threads.Host{{Name: "iris", User: "disinto", Address: "iris.lan"}}}
	return w, func(s *supervisor.Supervisor) { s.ReadHost = f.read }
}

// A hub looks every five minutes, with one call to each host. It moves issues from a busy agent elsewhere to its own
// as it would within one host. Its own tick starts the moved issues.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive), nil }}
		w, reads := hubWorld(t, 9, f)
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		time.Sleep(time.Hour + 10*time.Second)
		if got := fmt.Sprint(w.stolen()); got != "[6 7 8 9]" {
			t.Errorf("got moved issues %s, want the four newest: nine wait there, and five stay", got)
		}
		who := w.implementers()
		for n := int64(6); n <= 9; n++ {
			if is := w.Forge.Get(n); len(who[n]) != 1 || !is.Has("fleet:iris:stolen") {
				t.Errorf("#%d: got sessions of %v and issue %+v, want one session, and the stolen label", n, who[n], is)
			}
		}
		// One call at the start, then one for each of twelve looks.
		if n := f.calls.Load(); n != 13 {
			t.Errorf("got %d calls in an hour, want 13", n)
		}
		s := l.Fleet()
		if len(s.Cycles) != fleet.CycleLimit || s.Cycles[0].Calls != 1 || len(s.Cycles[0].Moves) != 0 {
			t.Errorf("got looks %+v, want the last %d, each with 1 call", s.Cycles, fleet.CycleLimit)
		}
		first := s.Cycles[len(s.Cycles)-1]
		if len(first.Moves) != 4 || first.Moves[0].From != "iris/dev-elsewhere" || first.Moves[0].State != fleet.MoveDone {
			t.Errorf("got first look %+v, want 4 moves from iris/dev-elsewhere", first)
		}
		l.Stop()
	})
}

// A host that drains hands over what waits for its agents, however little it is.
func TestHubTakesFromADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) {
			return bytes.Replace(says("other", threads.LoadGated), []byte(`"begun"`), []byte(`"draining":true,"begun"`), 1), nil
		}}
		w, reads := hubWorld(t, 2, f)
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		w.Until(10*time.Minute, "both issues move", func() bool { return fmt.Sprint(w.stolen()) == "[1 2]" })
		l.Stop()
	})
}

// An idle agent elsewhere gets issues that wait for ours. Nothing starts here for them.
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
			t.Errorf("got moved issues %s, want [7 8]", got)
		}
		for _, n := range []int64{7, 8} {
			if is := w.Forge.Get(n); fmt.Sprint(is.Assignees) != "[dev-elsewhere]" {
				t.Errorf("#%d: got assignees %v, want dev-elsewhere", n, is.Assignees)
			}
		}
		l.Stop()
	})
}

// An issue with a workspace on another host stays there. Only that host knows of the workspace.
func TestHubLeavesWhatIsBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive, Repo+"#9", Repo+"#7"), nil }}
		w, reads := hubWorld(t, 9, f)
		l := w.Start(func(l *Life) { reads(l.Supervisor) })
		time.Sleep(6 * time.Minute)
		if got := fmt.Sprint(w.stolen()); got != "[4 5 6 8]" {
			t.Errorf("got moved issues %s, want [4 5 6 8]", got)
		}
		why := ""
		for _, st := range l.Fleet().Cycles[0].Stays {
			if st.Number == 9 {
				why = st.Why
			}
		}
		if why != "iris worked on it" {
			t.Errorf("got reason %q for #9, want that iris worked on it", why)
		}
		l.Stop()
	})
}

// N1: with four other hosts, a look makes four calls, and none is repeated.
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
			t.Errorf("got %d calls and cycles %+v, want 8 calls, four of them at the start", f.calls.Load(), s.Cycles)
		}
		l.Stop()
	})
}

// K3, K4, I6: a host without a usable status takes no part. The log says why, once. The host takes part again when it
// has one.
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
			time.Sleep(3 * time.Minute) // an export has the time at which it was made
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
					t.Errorf("got moved issues %v, want none", got)
				}
				s := l.Fleet()
				if h := s.Hosts[1]; h.Known || h.Why != tt.why || len(h.Agents) > 0 {
					t.Errorf("got host %+v, want unknown: %s", h, tt.why)
				}
				if got := s.Cycles[0].Unknown; fmt.Sprint(got) != "[iris: "+tt.why+"]" {
					t.Errorf("got unknown hosts %q, want [iris: %s]", got, tt.why)
				}
				if n := strings.Count(w.Log.String(), "host iris takes no part: "+tt.why); n != 1 {
					t.Errorf("logged %d times, want once", n)
				}
				l.Stop()
			})
		})
	}
}

// A supervisor with two names, and an account that is not known as an agent's, take no part.
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
					t.Errorf("got cycles %+v, want the unknown %s", s.Cycles, tt.why)
				}
				l.Stop()
			})
		})
	}
}

// The file shows an agent as busy before its program runs, and as idle after its end. The file is gone after the end
// of the supervisor.
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
				t.Errorf("%s starts, but the file has %+v", job.Agent, a)
			}
			return work(job, n)
		}
		l := w.Start()
		time.Sleep(time.Minute)
		since, _ := read("dev-coder")
		if !since.Idle || since.PendingCount != 0 {
			t.Errorf("without work: got %+v, want idle", since)
		}
		time.Sleep(10 * time.Minute) // nothing happens, but the file is still written
		later, d := read("dev-coder")
		if !later.IdleSince.Equal(since.IdleSince) || time.Since(d.UpdatedAt) > fleet.Pulse {
			t.Errorf("ten minutes later: got %+v, updated at %s, want the same idle time, and a recent update", later,
				d.UpdatedAt)
		}
		for range 3 {
			n := w.Forge.Issue("work")
			w.Forge.Edit(n, func(is *forge.Issue) { is.Assignees = []string{"dev-coder"} })
		}
		time.Sleep(5 * time.Minute)
		a, d := read("dev-coder")
		if a.State != threads.LoadActive || a.PendingCount != 2 || fmt.Sprint(d.Begun) != "["+a.Active+"]" {
			t.Errorf("with three issues: got %+v, begun %v, want active with 2 waiting issues", a, d.Begun)
		}
		time.Sleep(time.Hour)
		a, _ = read("dev-coder")
		if !a.Idle || !a.IdleSince.After(since.IdleSince) || a.LastProgressAt.IsZero() || starts < 6 {
			t.Errorf("after %d sessions: got %+v, want idle since later, after at least 6 sessions", starts, a)
		}
		ask(l, "/v1/drain", `{}`)
		n := w.Forge.Issue("work of a host that drains")
		w.Forge.Edit(n, func(is *forge.Issue) { is.Assignees = []string{"dev-coder"} })
		time.Sleep(5 * time.Minute)
		if a, d := read("dev-coder"); !d.Draining || a.Idle || a.State != threads.LoadGated || a.PendingCount != 1 {
			t.Errorf("while it drains: got %+v, draining %v, want gated with a waiting issue", a, d.Draining)
		}
		w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
		time.Sleep(5 * time.Minute)
		if a, _ := read("dev-coder"); a.Idle || a.State != threads.LoadGated {
			t.Errorf("without a forge: got %+v, want gated", a)
		}
		l.Stop()
		if _, err := os.Stat(filepath.Join(w.Dir, fleet.FileName)); !os.IsNotExist(err) {
			t.Errorf("the file still exists after the stop: %v", err)
		}
	})
}

// A panic while the file is written, or while a hub looks, ends nothing: the file is removed, and both work again
// later.
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
			t.Errorf("the file still exists: %v", err)
		}
		bad.Store(false)
		time.Sleep(6 * time.Minute)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(w.stolen()); got != "[6 7 8 9]" {
			t.Errorf("got moved issues %s, want [6 7 8 9]", got)
		}
		l.Stop()
	})
}
