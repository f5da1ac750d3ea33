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

// idleMost bounds the memory of an idle supervisor and its init together, in KiB. It counts no pages of the program:
// those are more than half of what is resident, the kernel maps up to 64 KiB around each use, more on some kernels than
// on others, and drops them when it needs room. Its own are 8.1 MiB.
const idleMost = 10 << 10

// TestIdle is the last part of make bench-init: the cost of a supervisor without work, whose forge answers.
func TestIdle(t *testing.T) {
	if os.Getenv("DISINTO_BINARY") == "" {
		t.Skip("make bench-init runs it")
	}
	s := newSoak(t, soakThreads, 0, "0")
	r := s.start()
	status(t, s.state, "the first scan of the forge", func(d *control.Document) bool { return d.Forge.OK })
	time.Sleep(startTime + 2*time.Second) // by then it has released the memory of its start
	before := r.vitals()
	time.Sleep(10 * time.Second)
	after := r.vitals()
	t.Logf("run at rest, with %d threads and agents: %s, %s of processor time in 10 s", soakThreads, after,
		after.cpu-before.cpu)
	if after.own > idleMost {
		t.Errorf("got %d KiB, want at most %d", after.own, idleMost)
	}
}

const (
	// roomMost bounds the same with one open page of the control room, and crowdMost what a thousand open pages add.
	// With a page it had 8.3 MiB of its own before the interactive status, and has 9.2 with it and what came after it.
	roomMost  = 11 << 10
	crowdMost = 100 << 20 >> 10
	crowdSize = 1000
)

// TestIdleRoom measures the memory that one open page of the control room takes, and that a thousand take.
func TestIdleRoom(t *testing.T) {
	if os.Getenv("DISINTO_BINARY") == "" {
		t.Skip("make bench-init runs it")
	}
	address := deadAddress(t)
	s := newSoak(t, soakThreads, 0, "0")
	s.factory = fmt.Sprintf("listen_web = %q\nlisten_token = \"0123456789abcdef\"\n", address)
	r := s.start()
	status(t, s.state, "the first scan of the forge", func(d *control.Document) bool { return d.Forge.OK })
	time.Sleep(startTime + 2*time.Second)
	closed := r.vitals()
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
				t.Fatalf("cannot open a page: %v", err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body)) }()
		}
	}
	open(1)
	time.Sleep(15 * time.Second)
	one := r.vitals()
	open(crowdSize - 1)
	time.Sleep(15 * time.Second)
	all := r.vitals()
	t.Logf("no page open: %s; one: %s; %d: %s", closed, one, crowdSize, all)
	if one.own > roomMost {
		t.Errorf("got %d KiB with a page open, want at most %d", one.own, roomMost)
	}
	if all.own-closed.own > crowdMost {
		t.Errorf("%d pages: got %d KiB more, want at most %d", crowdSize, all.own-closed.own, crowdMost)
	}
	if all.fds-closed.fds < crowdSize {
		t.Errorf("got only %d more descriptors: not all pages are open", all.fds-closed.fds)
	}
}
