package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/supervisor/control"
)

// asker asks one address again and again, each time by a new connection.
type asker struct {
	asks    sync.WaitGroup
	stop    context.CancelFunc
	took    []time.Duration
	refused []string // the errors of requests without an answer
}

// keepAsking begins to ask a socket or an address for a path.
func keepAsking(t *testing.T, network, address, path string) *asker {
	ctx, stop := context.WithCancel(t.Context())
	a := &asker{stop: stop}
	a.asks.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			begun := time.Now()
			if err := ask(ctx, network, address, path); err != nil && ctx.Err() == nil {
				a.refused = append(a.refused, err.Error())
			}
			a.took = append(a.took, time.Since(begun))
		}
	})
	return a
}

// ask makes one request, and returns an error if it has no answer.
func ask(ctx context.Context, network, address, path string) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// report logs how many requests had no answer, and the longest times.
func (a *asker) report(t *testing.T, what string) {
	t.Helper()
	a.stop()
	a.asks.Wait()
	slices.Sort(a.took)
	n := len(a.took)
	late := n - slices.IndexFunc(append(a.took, time.Hour), func(d time.Duration) bool { return d > 200*time.Millisecond })
	t.Logf("%s: %d requests, %d without an answer; median %s, %d took more than 200 ms, the longest %s %s", what, n,
		len(a.refused), a.took[n/2].Round(time.Microsecond), late, a.took[n-1].Round(time.Millisecond),
		strings.Join(slices.Compact(a.refused), "; "))
}

// storeOfNothing is an init that keeps nothing.
type storeOfNothing struct{ process.Store }

func (storeOfNothing) Keep(string, int, int, uint64) error { return nil }
func (storeOfNothing) Drop(string)                         {}

// Before a supervisor ends for an upgrade, it answers what it has accepted, and accepts nothing more: new connections
// wait in the kernel's queue. If the upgrade fails, it answers them.
func TestListenersKeepStill(t *testing.T) {
	set := &listenerSet{store: storeOfNothing{}}
	l, err := set.unix(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	answer := func(http.ResponseWriter, *http.Request) { answered <- struct{}{} }
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	for range 2 {
		resume := set.keepStill()
		if !set.isStill() {
			t.Error("a server still accepts connections")
		}
		asked := make(chan error)
		go func() { asked <- ask(t.Context(), "unix", l.Addr().String(), "/") }()
		select {
		case <-answered:
			t.Error("a request was accepted meanwhile")
		case <-time.After(20 * time.Millisecond):
		}
		resume()
		<-answered
		if err := <-asked; err != nil {
			t.Errorf("the request that waited: %v", err)
		}
	}
}

// A supervisor that ends waits for its last answers, but not for a client that it answered before and that stays.
func TestLastAnswers(t *testing.T) {
	var asked control.Asked
	begun, end := make(chan struct{}), make(chan struct{})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	}), nil, &asked, newLog(io.Discard, pid1.LineForm{}))()
	go func() { _ = ask(t.Context(), "unix", l.Addr().String(), "/") }()
	<-begun
	asked.Await(time.Now(), time.Hour) // returns although that request has no answer
	time.AfterFunc(20*time.Millisecond, func() { close(end) })
	asked.Await(time.Time{}, time.Hour)
	select {
	case <-end:
	default:
		t.Error("it has not waited for the answer")
	}
}
