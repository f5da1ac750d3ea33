package file

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/threads"
)

// sshPlace matches a host, which may be a Host of the ssh configuration or an IPv6 address in brackets, with or without
// user@ before it and :port after it. No part starts with a dash: ssh would take it for an option, and -oProxyCommand=
// runs programs. It is compiled only for a file with hosts, because compiling it takes half a
// millisecond.
const sshPlace = `^(?:(\w[\w.-]{0,63})@)?(?:(\w[\w.-]{0,252})|\[([0-9A-Fa-f:.]{2,45})\])(?::([0-9]{1,5}))?$`

// readFleet reads [fleet].
func (d *decoder) readFleet(t *table) {
	f := &d.config.Fleet
	f.Hub = t.truth("hub", false)
	tables := t.elements("hosts")
	for _, e := range tables {
		h := d.host(e)
		for _, other := range f.Hosts {
			switch {
			case h.Name != "" && h.Name == other.Name:
				e.wrong("name", "is %q, which another host has too", h.Name)
			case h.Address != "" && h.String() == other.String():
				e.wrong("ssh", "is %q, which %s has too: its agents would count twice", h, other.Name)
			}
		}
		f.Hosts = append(f.Hosts, h)
	}
	switch {
	case f.Hub && len(tables) == 0 && !d.mistaken("fleet.hosts"):
		t.wrong("hub", `is true, and no other hosts are set: add [[fleet.hosts]] with name and ssh = "user@host" for each`)
	case !f.Hub && len(tables) > 0 && !d.mistaken("fleet.hub"):
		t.wrong("hosts", "have no effect without hub = true: only a hub reads other hosts")
	}
	slices.SortFunc(f.Hosts, func(a, b threads.Host) int { return cmp.Compare(a.Name, b.Name) })
	t.done()
}

// host reads one [[fleet.hosts]]. Its name must not be that of a local thread or agent, because its threads and
// agents are named HOST/NAME.
func (d *decoder) host(t *table) threads.Host {
	h := threads.Host{Name: t.text("name")}
	switch {
	case h.Name == "" && !t.has("name"):
		t.wrong("name", "is not set, want a name for the host")
	case !otherName.MatchString(h.Name) && !d.mistakenAt("fleet.hosts.name", t.lineOf("name")):
		t.wrong("name", "is %q, want letters, digits, dots, dashes and underscores", h.Name)
	case d.config.Thread(h.Name) != nil || d.config.Agent(h.Name) != nil:
		t.wrong("name", "is %q, the name of a thread or an agent here", h.Name)
	}
	const want = `want "user@host", "user@host:port", "user@[IPv6]:port", or a Host of the ssh configuration`
	s, ok := get[string](t, "ssh", strings.TrimPrefix(want, "want "))
	t.shapeOf("ssh").Pattern = sshPlace
	part := regexp.MustCompile(sshPlace).FindStringSubmatch(s)
	switch {
	case !ok:
		if !t.has("ssh") {
			t.wrong("ssh", "is not set, %s", want)
		}
	case part == nil:
		t.wrong("ssh", "is %q, %s", s, want)
	case part[3] != "" && !isIPv6(part[3]):
		t.wrong("ssh", "is %q, want an IPv6 address in the brackets", s)
	default:
		h.User, h.Address = part[1], part[2]+part[3]
		h.Port, _ = strconv.Atoi(part[4])
		if part[4] != "" && (h.Port < 1 || h.Port > 65535) {
			t.wrong("ssh", "is %q, want a port from 1 to 65535", s)
		}
	}
	t.done()
	return h
}

func isIPv6(s string) bool {
	ip, err := netip.ParseAddr(s)
	return err == nil && ip.Is6()
}

// mistakenAt reports whether a mistake in a key on this line was already reported.
func (d *decoder) mistakenAt(key string, line int) bool {
	return slices.ContainsFunc(d.mistakes, func(m Mistake) bool { return m.Key == key && m.Line == line })
}
