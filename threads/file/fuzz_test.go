package file

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
)

// FuzzDecode looks for texts that crash the decoder, and checks the invariants that the scheduler relies on in every
// configuration that the decoder accepts. Its seeds are also in testdata/fuzz/FuzzDecode.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Decode("factory.toml", text, inContainer)
		var mistakes Mistakes
		switch {
		case err == nil:
			checkInvariants(t, c)
			c.Problems()
		case !errors.As(err, &mistakes) || len(mistakes) == 0:
			t.Fatalf("got an error without mistakes: %v", err)
		}
		end := 1 + strings.Count(text, "\n")
		for _, m := range mistakes {
			if m.Line < 0 || m.Line > end {
				t.Errorf("%v is after line %d", m, end)
			}
		}
	})
}

func checkInvariants(t *testing.T, c *threads.Config) {
	for i, th := range c.Threads {
		if i > 0 && c.Threads[i-1].Name >= th.Name {
			t.Errorf("threads are not sorted: %q", th.Name)
		}
		if th.Slots < 1 || th.MaxSessions < 1 || !th.Overlap && th.MaxSessions != th.Slots {
			t.Errorf("thread %s has %d slots for %d sessions", th.Name, th.Slots, th.MaxSessions)
		}
		if th.Backend != threads.API && th.Backend != threads.Local ||
			min(th.Interval, th.IdleInterval, th.BreakerInterval) <= 0 {
			t.Errorf("thread %s is %v", th.Name, th)
		}
	}
	for i, a := range c.Agents {
		if i > 0 && cmp.Compare(c.Agents[i-1].Name, a.Name) >= 0 {
			t.Errorf("agents are not sorted: %q", a.Name)
		}
		if c.Thread(a.Thread) == nil || c.AgentByLogin(a.Login).Name != a.Name || len(a.Roles) == 0 {
			t.Errorf("agent %s has thread %q, login %q, roles %q", a.Name, a.Thread, a.Login, a.Roles)
		}
		for _, name := range a.Roles {
			if c.Role(name) == nil {
				t.Errorf("agent %s has an unknown role %q", a.Name, name)
			}
		}
	}
	for i, r := range c.Roles {
		if i > 0 && c.Roles[i-1].Name >= r.Name {
			t.Errorf("roles are not sorted: %q", r.Name)
		}
		if r.On == "" || (r.On == "schedule") != (r.Every > 0) || r.Priority < 1 || r.Priority > 10 || r.Timeout <= 0 ||
			r.Stall <= 0 {
			t.Errorf("role %s is %v", r.Name, r)
		}
	}
	if c.Forge.URL == "" || len(c.Forge.Repos) == 0 || c.Forge.Token == "" {
		t.Errorf("the forge is %v", c.Forge)
	}
}
