//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// ports notes the servers of this machine that get credentials, or what agents read, by plain HTTP, if an agent could
// listen on their port while they are down.
func (k *checker) ports(ctx context.Context) {
	local := localPart(k.config)
	if len(local.Agents) == 0 {
		return
	}
	open := unheldPorts(local)
	for _, a := range k.config.Addresses() {
		port := agents.Port(a.URL)
		if !confides(a) || !k.onThisMachine(ctx, a.URL) {
			continue
		}
		switch {
		case open != "":
			k.addNote("ports", fmt.Sprintf("%s: an agent could listen on port %d of this machine while the server is down, and "+
				"receive what its clients send by plain HTTP: %s", a.Key, port, open))
		case process.Chooses(port):
			k.addNote("ports", fmt.Sprintf("%s: the kernel gives port %d of this machine to any program that asks for a free "+
				"one: an agent could get it while the server is down, and receive what its clients send by plain HTTP; "+
				"choose a port outside ip_local_port_range, such as one below 32768", a.Key, port))
		}
	}
}

// unheldPorts says why agents can listen on any port; empty if the sandbox prevents it.
func unheldPorts(local *threads.Config) string {
	found, err := findSandbox()
	off := rolesWith(local, agents.SandboxOff)
	switch {
	case err != nil:
		return "there is no sandbox here"
	case len(off) > 0:
		return `sandbox = "off" of ` + strings.Join(off, ", ")
	case !found.Ports:
		return "this kernel cannot refuse ports (Linux 6.7 can)"
	}
	return ""
}

// confides reports whether clients of a server send it credentials, or what agents read, without TLS.
func confides(a threads.Address) bool {
	if strings.HasPrefix(a.Key, "factory.") {
		return a.Key == "factory.listen" || a.Key == "factory.listen_web"
	}
	return strings.HasPrefix(a.URL, "http://")
}

// onThisMachine reports whether an address is one of this machine, or of its container.
func (k *checker) onThisMachine(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := u.Hostname()
	ips := []net.IP{net.ParseIP(host)}
	switch {
	case host == "" || host == "localhost":
		return true
	case ips[0] != nil:
	case k.offline:
		return false
	default:
		ctx, cancel := context.WithTimeout(ctx, backendTime)
		defer cancel()
		if ips, err = net.DefaultResolver.LookupIP(ctx, "ip", host); err != nil {
			return false
		}
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(ips, func(ip net.IP) bool {
		return ip.IsLoopback() || ip.IsUnspecified() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		})
	})
}
