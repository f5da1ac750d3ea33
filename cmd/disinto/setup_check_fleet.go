//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// fleet reads the other hosts as the hub does, in parallel: however many hosts hang, it takes ten seconds.
func (k *checker) fleet(ctx context.Context) {
	hosts := k.config.Fleet.Hosts
	if !k.config.Fleet.Hub || len(hosts) == 0 {
		return
	}
	reaper, err := newReaper()
	if err != nil {
		k.addProblem("fleet", err)
		return
	}
	for _, r := range fleet.FetchAll(ctx, hostReader(reaper.Run, k.c.environ), hosts, "") {
		if r.Doc == nil {
			k.addProblem("fleet", fmt.Errorf("%s: %s%s", r.Host.Name, r.Why, hostAdvice(r.Why)))
			continue
		}
		k.host(r.Host, r.Doc)
	}
}

// host reports on a host that answered, and on those of its agents that the hub will ignore.
func (k *checker) host(h threads.Host, d *fleet.Document) {
	var strangers []string
	for i := range d.Agents {
		if !slices.Contains(k.config.Forge.Bots, d.Agents[i].Login) {
			strangers = append(strangers, d.Agents[i].Login)
		}
	}
	if len(strangers) > 0 {
		k.addProblem("fleet", fmt.Errorf("%s: %s: add to [forge] bots, or the hub moves none of their issues",
			h.Name, strings.Join(strangers, ", ")))
	}
	if d.Version != version() {
		k.addNote("fleet", fmt.Sprintf("%s has disinto %s, and this is %s", h.Name, d.Version, version()))
	}
	k.addOK("fleet", "%s: its key is known, and it reports %s", h.Name, control.Count(len(d.Agents), "agent"))
}

// sshComplaints maps parts of error messages of ssh and of the remote shell to a fix.
var sshComplaints = []struct{ says, fix string }{
	{"no answer within", "check that it is up and that no firewall blocks it"},
	{"timed out", "check that it is up and that no firewall blocks it"},
	{"no route", "check that it is up and that no firewall blocks it"},
	{"host key", "connect to it once by hand, as this supervisor's account, or add its key to known_hosts"},
	{"permission denied", "add this host's public key to its authorized_keys: see docs/fleet.md"},
	{"not found", "install disinto there, or set its path in the key's command="},
	{"resolve hostname", "correct ssh in [[fleet.hosts]]"},
	{"refused", "start its sshd, or correct ssh in [[fleet.hosts]]"},
}

// hostAdvice returns the fix for a host that could not be read, to append to the reason; "" if there is none.
func hostAdvice(why string) string {
	words := strings.ToLower(why)
	switch {
	case strings.HasPrefix(words, "it is the same supervisor"):
		return ": give each its own host, or remove one from [[fleet.hosts]]"
	case !strings.HasPrefix(words, "ssh") && !strings.HasPrefix(words, "no answer"):
		return "" // the host answered, and the reason is about its answer
	}
	for _, c := range sshComplaints {
		if strings.Contains(words, c.says) {
			return "; " + c.fix
		}
	}
	return ""
}
