package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// FetchTime bounds the answers of all other hosts together.
const FetchTime = 10 * time.Second

const (
	// maxAge is the age at which a status is no longer believed: its supervisor hangs or was killed.
	maxAge = 4 * Pulse
	// maxSkew is how far two clocks may differ. It is a fraction of the time that an agent must be idle.
	maxSkew = 30 * time.Second
	// maxAgents, maxBegun and maxText bound how much of one host's report we keep and show; maxText counts bytes.
	maxAgents = 1000
	maxBegun  = 10_000
	maxText   = 300
)

// ReadHost makes a host print its `disinto fleet export`, or says in one line why it did not. It returns soon after
// ctx is done, and may be called from several goroutines at once.
type ReadHost func(ctx context.Context, host threads.Host) ([]byte, error)

// Reading is the answer of a host: a Doc, or Why there is none.
type Reading struct {
	Host threads.Host
	At   time.Time // time of the question
	Doc  *Document
	Why  string // one line, fit for a log; empty with a Doc
}

// FetchAll reads all hosts at once, within FetchTime, and checks their reports. own is the instance of the asking
// supervisor, which must not count as another host; "" if no supervisor asks.
func FetchAll(ctx context.Context, read ReadHost, hosts []threads.Host, own string) []Reading {
	ctx, cancel := context.WithTimeout(ctx, FetchTime)
	defer cancel()
	readings := make([]Reading, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() {
			readings[i] = Reading{Host: h, At: time.Now()}
			doc, err := safely(ctx, read, h)
			if err != nil {
				readings[i].Why = err.Error()
			}
			readings[i].Doc = doc
		})
	}
	all.Wait()
	seen := make(map[string]string, len(hosts)) // instance to host
	if own != "" {
		seen[own] = "this host"
	}
	for i := range readings {
		r := &readings[i]
		if r.Doc == nil {
			continue
		}
		if other := seen[r.Doc.Instance]; other != "" {
			r.Doc, r.Why = nil, "it is the same supervisor as "+other
			continue
		}
		seen[r.Doc.Instance] = r.Host.Name
	}
	return readings
}

// safely fetches the report of one host. A panic, caused by an unforeseen answer, counts as no answer of that host.
func safely(ctx context.Context, read ReadHost, h threads.Host) (d *Document, err error) {
	defer func() {
		if v := recover(); v != nil {
			d, err = nil, fmt.Errorf("internal error: reading it panicked: %v", v)
		}
	}()
	return fetch(ctx, read, h)
}

func fetch(ctx context.Context, read ReadHost, h threads.Host) (*Document, error) {
	began := time.Now()
	text, err := read(ctx, h)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer within %s", FetchTime)
	case err != nil:
		return nil, errors.New(printable(err.Error()))
	}
	return parse(text, began, time.Now())
}

// parse reads a report that another host exported between began and now. Any fault, such as a truncated or old status
// or a wrong clock, leaves the host out. The report's text is data: names must be names, and everything else is only
// shown.
func parse(text []byte, began, now time.Time) (*Document, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("it printed nothing")
	}
	var head Export
	var d Document
	// A login shell may print a banner first, even without a newline at its end.
	in := json.NewDecoder(bytes.NewReader(text[max(0, bytes.Index(text, []byte(`{"exported_at":`))):]))
	if err := in.Decode(&head); err != nil || head.ExportedAt.IsZero() {
		first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
		return nil, fmt.Errorf("its output is not a disinto status: is its command disinto fleet export? It begins with %q",
			printable(string(first)))
	}
	switch err := in.Decode(&d); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it has no status: does disinto run there?")
	case err != nil:
		return nil, fmt.Errorf("its status cannot be read: %s", printable(err.Error()))
	case d.Format != Format:
		return nil, fmt.Errorf("its status has format %d, and this version reads %d: update the older one", d.Format, Format)
	}
	if err := checkClock(head.ExportedAt, d.UpdatedAt, began, now); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return &d, nil
}

// checkClock compares a status's export and update times, by the other host's clock, with the times of our question
// and its answer, by ours.
func checkClock(exported, updated, began, now time.Time) error {
	age := exported.Sub(updated)
	behind, ahead := began.Sub(exported), max(exported.Sub(now), updated.Sub(now))
	switch {
	case age > maxAge:
		return fmt.Errorf("its status is %s old: does its supervisor run?", age.Round(time.Second))
	case behind > maxSkew:
		return fmt.Errorf("its clock is %s behind ours", behind.Round(time.Second))
	case ahead > maxSkew:
		return fmt.Errorf("its clock is %s ahead of ours", ahead.Round(time.Second))
	}
	return nil
}

// check refuses a document with a malformed agent or issue, sorts it, and tames the texts that are only shown.
func (d *Document) check() error {
	switch {
	case len(d.Agents) > maxAgents:
		return fmt.Errorf("it reports %d agents", len(d.Agents))
	case len(d.Begun) > maxBegun:
		return fmt.Errorf("it reports %d started issues", len(d.Begun))
	}
	for _, said := range d.Begun {
		if _, err := forge.ParseRef(said, ""); err != nil {
			return fmt.Errorf("its status has %q where an issue belongs", printable(said))
		}
	}
	for i := range d.Agents {
		if err := d.Agents[i].check(); err != nil {
			return err
		}
	}
	d.Version = printable(d.Version)
	slices.SortFunc(d.Agents, func(a, b Agent) int { return strings.Compare(a.Agent, b.Agent) })
	return nil
}

// validName matches agents, threads, roles and accounts. It is wider than our own rules, which another version may
// have changed, but excludes everything with a meaning in a terminal, a path or a URL. A name has at most maxName
// bytes.
var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

const maxName = 100

func (a *Agent) check() error {
	names := []string{a.Agent, a.Login, a.Thread}
	for _, r := range a.Roles {
		names = append(names, r.Name)
	}
	for _, name := range names {
		if len(name) > maxName || !validName.MatchString(name) {
			return fmt.Errorf("its status has %q where a name belongs", printable(name))
		}
	}
	switch a.State {
	case threads.LoadIdle, threads.LoadActive, threads.LoadGated, threads.LoadSick:
	default:
		return fmt.Errorf("its status has %q for the state of %s", printable(string(a.State)), a.Agent)
	}
	if len(a.Roles) == 0 || len(a.Roles) > maxAgents || len(a.Skills) > maxAgents {
		return fmt.Errorf("its status has %d roles and %d skills for %s", len(a.Roles), len(a.Skills), a.Agent)
	}
	a.Role, a.StateWhy, a.Active = printable(a.Role), printable(a.StateWhy), printable(a.Active)
	for i := range a.Skills {
		a.Skills[i] = printable(a.Skills[i])
	}
	slices.Sort(a.Skills)
	for i := range a.Roles {
		a.Roles[i].Label = printable(a.Roles[i].Label)
	}
	if !a.Idle || a.State != threads.LoadIdle { // idle only if both fields agree
		a.Idle, a.IdleSince = false, time.Time{}
	}
	return nil
}

// printable makes another host's text fit for a log line: at most maxText bytes, and printable.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, s[:min(len(s), maxText)])
	return strings.TrimSpace(s)
}

// remote returns the agent in the scheduler's form.
func (a *Agent) remote(host string, draining bool) threads.Remote {
	r := threads.Remote{
		Host: host, Agent: a.Agent, Login: a.Login, Thread: a.Thread, Backend: a.Backend, Skills: a.Skills,
		State: a.State, Why: a.StateWhy, IdleSince: a.IdleSince,
		Draining: draining,
	}
	for _, role := range a.Roles {
		r.Roles = append(r.Roles, agents.Role{Name: role.Name, On: role.On, Label: role.Label})
	}
	return r
}
