package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// fleet asks the other hosts of a hub what the hub will ask them, all at once, so one that hangs costs its ten seconds once.
func (k *checker) fleet(ctx context.Context) {
	hosts := k.config.Fleet.Hosts
	if !k.config.Fleet.Hub || len(hosts) == 0 {
		return
	}
	reaper, err := process.NewReaper()
	if err != nil {
		k.problem("fleet", err)
		return
	}
	read := hostReader(reaper.Run, k.c.environ)
	ctx, cancel := context.WithTimeout(ctx, supervisor.HostTime)
	defer cancel()
	docs, errs := make([]*supervisor.FleetDocument, len(hosts)), make([]error, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() { docs[i], errs[i] = supervisor.AskHost(ctx, read, h) })
	}
	all.Wait()
	seen := make(map[string]string) // instance, to the host that has it
	for i, h := range hosts {
		if errs[i] != nil {
			k.problem("fleet", fmt.Errorf("%s: %w%s", h.Name, errs[i], sshAdvice(errs[i])))
			continue
		}
		k.host(h, docs[i], seen)
	}
}

// host says what a host that answered is, and what of it will take no part.
func (k *checker) host(h threads.Host, d *supervisor.FleetDocument, seen map[string]string) {
	if other := seen[d.Instance]; other != "" {
		k.problem("fleet", fmt.Errorf("%s: it is the same supervisor as %s: give each its own host, or take one out of [[fleet.hosts]]", h.Name, other))
		return
	}
	seen[d.Instance] = h.Name
	var strangers []string
	for i := range d.Agents {
		if !slices.Contains(k.config.Forge.Bots, d.Agents[i].Login) {
			strangers = append(strangers, d.Agents[i].Login)
		}
	}
	if len(strangers) > 0 {
		k.problem("fleet", fmt.Errorf("%s: %s: add to [forge] bots, or nothing of theirs is moved", h.Name, strings.Join(strangers, ", ")))
	}
	if d.Version != version() {
		k.note("fleet", fmt.Sprintf("%s has disinto %s, and this is %s", h.Name, d.Version, version()))
	}
	k.well("fleet", "%s: its key is known, and it tells of %d agents", h.Name, len(d.Agents))
}

// sshComplaints are words of ssh, or of the shell that it found, about what people can mend, and how.
var sshComplaints = []struct{ says, mend string }{
	{"no answer within", "is it up, and does no firewall stand between?"},
	{"timed out", "is it up, and does no firewall stand between?"},
	{"no route", "is it up, and does no firewall stand between?"},
	{"host key", "connect to it once by hand, as the account of this supervisor, or put its key into known_hosts"},
	{"permission denied", "add our public key to its authorized_keys: see docs/fleet.md"},
	{"not found", "install disinto there, or say in the command= of the key where it is"},
	{"resolve hostname", "correct ssh in [[fleet.hosts]]"},
	{"refused", "start its sshd, or correct ssh in [[fleet.hosts]]"},
}

// sshAdvice is what can be done about a host that could not be asked, after a semicolon; empty where its own words say it.
func sshAdvice(err error) string {
	words := strings.ToLower(err.Error())
	if !strings.HasPrefix(words, "ssh") && !strings.HasPrefix(words, "no answer") {
		return "" // it was asked, and what it said is judged already
	}
	for _, c := range sshComplaints {
		if strings.Contains(words, c.says) {
			return "; " + c.mend
		}
	}
	return ""
}
