package main

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// A request to localhost goes to one address: not to whoever listens on the other while the forge restarts.
func TestOneLocalhost(t *testing.T) {
	real, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(real.Addr().String())
	other, err := net.Listen("tcp", "[::1]:"+port)
	if err != nil {
		real.Close()
		t.Skip(err)
	}
	took := make(chan string, 10)
	for name, l := range map[string]net.Listener{"the forge": real, "another": other} {
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { took <- name })}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
	}
	both := func(ctx context.Context, network, to string) (net.Conn, error) { // as where /etc/hosts names both
		if host, _, _ := net.SplitHostPort(to); host != "localhost" {
			return new(net.Dialer).DialContext(ctx, network, to)
		}
		for _, address := range []string{"127.0.0.1:" + port, "[::1]:" + port} {
			if c, err := new(net.Dialer).DialContext(ctx, network, address); err == nil {
				return c, nil
			}
		}
		return nil, net.ErrClosed
	}
	transport := &http.Transport{DialContext: both, DisableKeepAlives: true}
	oneLocalhost(transport)
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:"+port, nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	if err := ask(); err != nil || <-took != "the forge" {
		t.Fatalf("the forge was not asked: %v", err)
	}
	real.Close()
	if err := ask(); err == nil {
		t.Errorf("%s was asked while the forge was down", <-took)
	}
}
