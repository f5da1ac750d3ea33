package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

const (
	// mostPage bounds a page, and mostChange the message for a changed row, in bytes.
	mostPage   = 40_000
	mostChange = 4_000
)

// manyIssues is 10,000 in make check. In make test it is six times the rows of a page.
func manyIssues() int { return simtest.Size(10_000, 600) }

// crowd is the control room of a real supervisor with many issues, none of which it starts.
type crowd struct {
	testing.TB
	world  *simtest.World
	server *httptest.Server
	client *http.Client
}

func newCrowd(t testing.TB) *crowd {
	w := simtest.New(t)
	w.Forge.Latency = 0
	for i := range manyIssues() {
		w.Forge.Issue(fmt.Sprintf("issue %d, whose title is about as long as those of people are", i))
	}
	w.Config.Factory.ListenToken = token
	for i := range w.Config.Threads {
		w.Config.Threads[i].Interval, w.Config.Threads[i].IdleInterval = time.Second, time.Second
	}
	s := &supervisor.Supervisor{Forge: w.Forge.Client(), Executor: w.Exec, Config: w.Config, StateDir: w.Dir, Paused: true}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	site := &Site{API: control.NewClient(w.Dir), Config: func() *threads.Config { return w.Config }}
	c := &crowd{TB: t, world: w, server: httptest.NewServer(site.Handler()), client: &http.Client{}}
	t.Cleanup(func() {
		c.server.CloseClientConnections()
		c.server.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c.client.Jar, _ = cookiejar.New(nil)
	for waiting := 0; waiting < manyIssues(); time.Sleep(10 * time.Millisecond) {
		waiting = 0
		for _, n := range s.Levels().Queue {
			waiting += n
		}
	}
	resp, err := c.client.PostForm(c.server.URL+"/signin", url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return c
}

// page returns a page's HTML and its version.
func (c *crowd) page(path string) (text, version string) {
	c.Helper()
	resp, err := c.client.Get(c.server.URL + path)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.Fatalf("%s: got %s, %v\n%s", path, resp.Status, err, body)
	}
	if m := regexp.MustCompile(`data-version="(\w+)"`).FindSubmatch(body); m != nil {
		version = string(m[1])
	}
	return string(body), version
}

// With ten thousand issues every page is short, and a change sends only the row that changed.
func TestTenThousand(t *testing.T) {
	c := newCrowd(t)
	for _, p := range append(pages[:len(pages):len(pages)], stills...) {
		path := p.path
		if p.path == "/confirm" {
			path += "?do=retry&of=all"
		} else if p.title == "" {
			path += "?ref=%2317"
			if strings.HasPrefix(path, "/convoy") {
				continue // issue 17 is not a convoy
			}
		}
		if text, _ := c.page(path); len(text) > mostPage {
			t.Errorf("%s has %d bytes, want %d at most", path, len(text), mostPage)
		} else {
			t.Logf("%s has %d bytes", path, len(text))
		}
	}
	text, version := c.page("/")
	if !strings.Contains(text, fmt.Sprintf("1 to 20 of %d", manyIssues())) {
		t.Error("the page does not say how many items it leaves out")
	}
	resp, err := c.client.Get(c.server.URL + "/live/?v=" + version)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c.world.Forge.Edit(17, func(is *forge.Issue) { is.Title, is.Assignees = "another title", []string{"ada"} }) // an event
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") && len(line) > mostChange || strings.Contains(line, stale) {
			t.Fatalf("got %d bytes for one row: %.300s", len(line), line)
		}
		if strings.Contains(line, "another title") {
			t.Logf("%d bytes for one row", len(line))
			return
		}
	}
}

// BenchmarkPages measures each page, from the request to the whole answer, with ten thousand issues.
func BenchmarkPages(b *testing.B) {
	c := newCrowd(b)
	for _, p := range pages {
		if p.title == "" {
			continue
		}
		b.Run(p.title, func(b *testing.B) {
			bytes := 0
			for b.Loop() {
				text, _ := c.page(p.path)
				bytes = len(text)
			}
			b.ReportMetric(float64(bytes), "bytes")
		})
	}
}
