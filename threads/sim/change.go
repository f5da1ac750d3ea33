package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Change is a difference from a factory's configuration.
type Change struct {
	// Slots are the slots of sticky threads, and the max_sessions of the others, by thread.
	Slots   map[string]int
	Hold    map[string]time.Duration // of sticky threads, by thread
	Without []string                 // agents to leave out
}

// Bounds of a Change.
const (
	maxSlots = 64
	maxHold  = 15 * time.Minute // as in factory.toml
)

// Of returns the changed configuration, and describes each difference. A change that no factory can have is an error.
func (c *Change) Of(config *threads.Config) (changed *threads.Config, differs []string, err error) {
	is := *config
	is.Threads, is.Agents = slices.Clone(config.Threads), slices.Clone(config.Agents)
	for _, name := range slices.Sorted(maps.Keys(c.Slots)) {
		words, err := setSlots(is.Thread(name), name, c.Slots[name])
		if err != nil {
			return nil, nil, err
		}
		differs = append(differs, words...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Hold)) {
		words, err := setHold(is.Thread(name), name, c.Hold[name])
		if err != nil {
			return nil, nil, err
		}
		differs = append(differs, words...)
	}
	without := slices.Compact(slices.Sorted(slices.Values(c.Without)))
	for _, name := range without {
		if config.Agent(name) == nil {
			return nil, nil, fmt.Errorf("there is no agent %s", name)
		}
		differs = append(differs, "without "+name)
	}
	if dismiss(&is, without); !writes(&is) {
		return nil, nil, fmt.Errorf("no agent that works on issues is left")
	}
	if reviews(config) && !reviews(&is) {
		differs = append(differs, "people review, at once")
	}
	return &is, differs, nil
}

func setSlots(t *threads.Thread, name string, n int) (differs []string, err error) {
	switch {
	case t == nil:
		return nil, fmt.Errorf("there is no thread %s", name)
	case n < 1 || n > maxSlots:
		return nil, fmt.Errorf("%s: %d slots, want 1 to %d", name, n, maxSlots)
	case n == t.MaxSessions:
		return nil, nil
	}
	noun := "slot"
	if t.Overlap {
		noun = "session"
	} else {
		t.Slots = n
	}
	if n != 1 {
		noun += "s"
	}
	words := fmt.Sprintf("%s: %d %s in place of %d", name, n, noun, t.MaxSessions)
	t.MaxSessions = n
	return []string{words}, nil
}

func setHold(t *threads.Thread, name string, hold time.Duration) (differs []string, err error) {
	switch {
	case t == nil:
		return nil, fmt.Errorf("there is no thread %s", name)
	case t.Overlap && hold != 0:
		return nil, fmt.Errorf("%s: hold is %s, but slots with overlap are never kept", name, brief(hold))
	case hold < 0 || hold > maxHold:
		return nil, fmt.Errorf("%s: hold is %s, want 0s to %s", name, brief(hold), brief(maxHold))
	case hold == t.Hold:
		return nil, nil
	}
	words := fmt.Sprintf("%s: hold %s in place of %s", name, brief(hold), brief(t.Hold))
	t.Hold = hold
	return []string{words}, nil
}

// brief formats a duration as in factory.toml: 4m, 1m30s.
func brief(d time.Duration) string {
	if s, whole := strings.CutSuffix(d.String(), "m0s"); whole {
		return s + "m"
	}
	return d.String()
}

// dismiss removes agents from a configuration, and routes and roles that no other agent has. The caller owns
// c.Threads and c.Agents.
func dismiss(c *threads.Config, names []string) {
	gone := func(name string) bool { return slices.Contains(names, name) }
	c.Agents = slices.DeleteFunc(c.Agents, func(a agents.Agent) bool { return gone(a.Name) })
	for i := range c.Threads {
		t := &c.Threads[i]
		t.Agents = slices.DeleteFunc(slices.Clone(t.Agents), gone)
	}
	c.Routes = slices.Clone(c.Routes)
	for i := range c.Routes {
		c.Routes[i].Agents = slices.DeleteFunc(slices.Clone(c.Routes[i].Agents), gone)
	}
	c.Routes = slices.DeleteFunc(c.Routes, func(r threads.Route) bool { return len(r.Agents) == 0 })
	c.Roles = slices.DeleteFunc(slices.Clone(c.Roles), func(r agents.Role) bool {
		return !slices.ContainsFunc(c.Agents, func(a agents.Agent) bool { return slices.Contains(a.Roles, r.Name) })
	})
}

func writes(c *threads.Config) bool  { return hasRole(c, agents.OnIssue) }
func reviews(c *threads.Config) bool { return hasRole(c, agents.OnReview) }

func hasRole(c *threads.Config, on agents.On) bool {
	return slices.ContainsFunc(c.Roles, func(r agents.Role) bool { return r.On == on })
}
