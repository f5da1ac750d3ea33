package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// oneLocalhost makes localhost one address for a transport. /etc/hosts often gives it two, 127.0.0.1 and ::1, and a
// server has one of them: whoever listens on the other would receive its clients' tokens. The address is looked up
// once.
func oneLocalhost(t *http.Transport) {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	address := sync.OnceValue(localhostAddress)
	t.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(to); err == nil && host == "localhost" {
			to = net.JoinHostPort(address(), port)
		}
		return dial(ctx, network, to)
	}
}

// localhostAddress returns the IPv4 address of localhost, or else its first address.
func localhostAddress() string {
	all, _ := net.DefaultResolver.LookupIPAddr(context.Background(), "localhost")
	is4 := func(a net.IPAddr) bool { return a.IP.To4() != nil }
	if len(all) == 0 || slices.ContainsFunc(all, is4) {
		return "127.0.0.1"
	}
	return all[0].String()
}
