//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// fleet reads the other hosts as the hub will, all at once, so that all hosts that hang together cost ten seconds.
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
	for _, r := range fleet.Ask(ctx, hostReader(reaper.Run, k.c.environ), hosts, "") {
		if r.Doc == nil {
			k.problem("fleet", fmt.Errorf("%s: %s%s", r.Host.Name, r.Why, hostAdvice(r.Why)))
			continue
		}
		k.host(r.Host, r.Doc)
	}
}

// host reports on a host that answered, and on its agents that will be left out.
func (k *checker) host(h threads.Host, d *fleet.Document) {
	var strangers []string
	for i := range d.Agents {
		if !slices.Contains(k.config.Forge.Bots, d.Agents[i].Login) {
			strangers = append(strangers, d.Agents[i].Login)
		}
	}
	if len(strangers) > 0 {
		k.problem("fleet", fmt.Errorf("%s: %s: add to [forge] bots, or nothing of theirs is moved",
			h.Name, strings.Join(strangers, ", ")))
	}
	if d.Version != version() {
		k.note("fleet", fmt.Sprintf("%s has disinto %s, and this is %s", h.Name, d.Version, version()))
	}
	k.well("fleet", "%s: its key is known, and it tells of %d agents", h.Name, len(d.Agents))
}

// sshComplaints are words of ssh, or of the remote shell, and how a person can mend the cause.
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

// hostAdvice says, to follow the reason, how to mend a host that could not be read; "" where the reason says it.
func hostAdvice(why string) string {
	words := strings.ToLower(why)
	switch {
	case strings.HasPrefix(words, "it is the same supervisor"):
		return ": give each its own host, or take one out of [[fleet.hosts]]"
	case !strings.HasPrefix(words, "ssh") && !strings.HasPrefix(words, "no answer"):
		return "" // the host answered, and the reason is about its answer
	}
	for _, c := range sshComplaints {
		if strings.Contains(words, c.says) {
			return "; " + c.mend
		}
	}
	return ""
}
