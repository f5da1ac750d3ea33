package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// idleMost is the most memory that an idle supervisor may have resident, in KiB: as much as pebble, which does much
// less.
const idleMost = 13 << 10

// TestIdle is the last part of make bench-init: what a supervisor costs that has nothing to do, with a forge that
// answers.
func TestIdle(t *testing.T) {
	if os.Getenv("DISINTO_BINARY") == "" {
		t.Skip("make bench-init runs it")
	}
	s := newSoak(t, soakThreads, 0, "0")
	r := s.start()
	status(t, s.state, "it has looked at the forge", func(d *control.Document) bool { return d.Forge.OK })
	time.Sleep(startTime + 2*time.Second) // by then it has given back what its start took
	before := vitalsOf(t, r.pid)
	time.Sleep(10 * time.Second)
	after := vitalsOf(t, r.pid)
	t.Logf("run at rest, with %d threads and agents: %s, %s of processor time in 10 s", soakThreads, after,
		after.cpu-before.cpu)
	if after.rss > idleMost {
		t.Errorf("%d KiB resident, want %d at most", after.rss, idleMost)
	}
}

const (
	// roomMost is the most memory of a supervisor with a page of the control room open, and crowdMost how much a thousand
	// open pages may add, in KiB.
	roomMost  = 20 << 10
	crowdMost = 100 << 20 >> 10
	crowdSize = 1000
)

// TestIdleRoom measures the memory that open pages of the control room take: one, and then a thousand.
func TestIdleRoom(t *testing.T) {
	if os.Getenv("DISINTO_BINARY") == "" {
		t.Skip("make bench-init runs it")
	}
	address := deadAddress(t)
	s := newSoak(t, soakThreads, 0, "0")
	s.factory = fmt.Sprintf("listen_web = %q\nlisten_token = \"0123456789abcdef\"\n", address)
	r := s.start()
	status(t, s.state, "it has looked at the forge", func(d *control.Document) bool { return d.Forge.OK })
	time.Sleep(startTime + 2*time.Second)
	closed := vitalsOf(t, r.pid)
	client := &http.Client{}
	client.Jar, _ = cookiejar.New(nil)
	resp, err := client.PostForm("http://"+address+"/signin", url.Values{"token": {"0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	_, version, _ := strings.Cut(string(page), `data-version="`)
	version, _, _ = strings.Cut(version, `"`)
	open := func(n int) {
		for range n {
			resp, err := client.Get("http://" + address + "/live/?v=" + version)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("an open page: %v", err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body)) }()
		}
	}
	open(1)
	time.Sleep(15 * time.Second)
	one := vitalsOf(t, r.pid)
	open(crowdSize - 1)
	time.Sleep(15 * time.Second)
	all := vitalsOf(t, r.pid)
	t.Logf("no page open: %s; one: %s; %d: %s", closed, one, crowdSize, all)
	if one.rss > roomMost {
		t.Errorf("%d KiB resident with a page open, want %d at most", one.rss, roomMost)
	}
	if all.rss-closed.rss > crowdMost {
		t.Errorf("%d pages add %d KiB, want %d at most", crowdSize, all.rss-closed.rss, crowdMost)
	}
	if all.fds-closed.fds < crowdSize {
		t.Errorf("%d descriptors more: not all pages are open", all.fds-closed.fds)
	}
}
