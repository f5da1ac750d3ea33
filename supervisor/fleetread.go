package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	// FleetPulse is how often a supervisor writes its fleet-status.json when nothing changes.
	FleetPulse = 30 * time.Second
	// fleetStale is from when on a status says nothing: its supervisor hangs, or is gone without a word.
	fleetStale = 4 * FleetPulse
	// fleetSkew is how far two clocks may differ. It is a fraction of the time that an agent has to be idle.
	fleetSkew = 30 * time.Second
	// fleetAgents bounds what one host can make us keep and show.
	fleetAgents = 1000
	// fleetBegun bounds how many issues a host can keep where they are.
	fleetBegun = 10_000
	// fleetWord bounds one word or reason of another host, in bytes.
	fleetWord = 300
)

// readExport reads what another host exported. began and now are when we asked and got the answer. Whatever is wrong with it
// makes the host unknown: a torn status, an old one, one by a clock that is wrong. What it says is data: names have to be
// names, and the rest is shown only.
func readExport(text []byte, began, now time.Time) (*FleetDocument, error) {
	var head FleetExport
	var d FleetDocument
	in := json.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&head); errors.Is(err, io.EOF) {
		return nil, errors.New("it said nothing")
	} else if err != nil || head.ExportedAt.IsZero() {
		return nil, errors.New("what it said is no status of disinto: is its command disinto fleet export?")
	}
	switch err := in.Decode(&d); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it has no status: does disinto run there?")
	case err != nil:
		return nil, fmt.Errorf("its status is torn: %s", tame(err.Error()))
	case d.Format != FleetFormat:
		return nil, fmt.Errorf("its status has format %d, and this version reads %d: update the older one", d.Format, FleetFormat)
	case head.ExportedAt.Sub(d.UpdatedAt) > fleetStale:
		return nil, fmt.Errorf("its status is %s old: does its supervisor run?", head.ExportedAt.Sub(d.UpdatedAt).Round(time.Second))
	case head.ExportedAt.Before(began.Add(-fleetSkew)):
		return nil, fmt.Errorf("its clock is %s behind ours", began.Sub(head.ExportedAt).Round(time.Second))
	case head.ExportedAt.After(now.Add(fleetSkew)), d.UpdatedAt.After(now.Add(fleetSkew)):
		ahead := max(head.ExportedAt.Sub(now), d.UpdatedAt.Sub(now))
		return nil, fmt.Errorf("its clock is %s ahead of ours", ahead.Round(time.Second))
	case len(d.Agents) > fleetAgents:
		return nil, fmt.Errorf("it says that it has %d agents", len(d.Agents))
	case len(d.Begun) > fleetBegun:
		return nil, fmt.Errorf("it says that it has begun %d issues", len(d.Begun))
	}
	for _, said := range d.Begun {
		if _, err := forge.ParseRef(said, ""); err != nil {
			return nil, fmt.Errorf("its status has %q where an issue belongs", tame(said))
		}
	}
	for i := range d.Agents {
		if err := d.Agents[i].check(); err != nil {
			return nil, err
		}
	}
	d.Version = tame(d.Version)
	slices.SortFunc(d.Agents, func(a, b FleetAgent) int { return strings.Compare(a.Agent, b.Agent) })
	return &d, nil
}

// fleetName is what agents, threads, roles and accounts are called. It is wider than our own rules, which another version may
// have changed, and still nothing that means something to a terminal, a path or a URL.
var fleetName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// check refuses an agent that is not described as one, and tames what is only shown.
func (a *FleetAgent) check() error {
	names := []string{a.Agent, a.Login, a.Thread}
	for _, r := range a.Roles {
		names = append(names, r.Name)
	}
	for _, name := range names {
		if !fleetName.MatchString(name) {
			return fmt.Errorf("its status has %q where a name belongs", tame(name))
		}
	}
	if !slices.Contains([]threads.LoadState{threads.LoadIdle, threads.LoadActive, threads.LoadGated, threads.LoadSick}, a.State) {
		return fmt.Errorf("its status has %q for the state of %s", tame(string(a.State)), a.Agent)
	}
	if len(a.Roles) == 0 || len(a.Roles) > fleetAgents || len(a.Skills) > fleetAgents {
		return fmt.Errorf("its status has %d roles and %d skills for %s", len(a.Roles), len(a.Skills), a.Agent)
	}
	a.Role, a.StateWhy, a.Active = tame(a.Role), tame(a.StateWhy), tame(a.Active)
	for i := range a.Skills {
		a.Skills[i] = tame(a.Skills[i])
	}
	slices.Sort(a.Skills)
	for i := range a.Roles {
		a.Roles[i].Label = tame(a.Roles[i].Label)
	}
	if !a.Idle || a.State != threads.LoadIdle { // both have to say so
		a.Idle, a.IdleSince = false, time.Time{}
	}
	return nil
}

// tame is text of another host, fit for a line of a log.
func tame(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, s[:min(len(s), fleetWord)])
	return strings.TrimSpace(s)
}

// remote is the agent as the scheduler sees it.
func (a *FleetAgent) remote(host string) threads.Remote {
	r := threads.Remote{
		Host: host, Agent: a.Agent, Login: a.Login, Thread: a.Thread, Backend: a.Backend, Skills: a.Skills,
		State: a.State, Why: a.StateWhy, IdleSince: a.IdleSince,
	}
	for _, role := range a.Roles {
		r.Roles = append(r.Roles, agents.Role{Name: role.Name, On: role.On, Label: role.Label})
	}
	return r
}
