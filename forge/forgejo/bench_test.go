package forgejo

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge/localforge"
)

// benchIssues is the number of issues in a big repository. Every tenth one is in the backlog, and every tenth of these
// waits for another.
const benchIssues = 10_000

var benchText = strings.Repeat("An issue has some text, of which most is prose that nobody but its reader looks at.\n",
	12)

// newBenchForge starts a localforge behind a real socket, with benchIssues issues in one repository.
func newBenchForge(b *testing.B) (url, token string) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	f, err := localforge.New(localforge.Options{Dir: b.TempDir(), Run: runGit})
	must(err)
	must(f.AddUser("owner", "", true))
	token, err = f.AddToken("owner")
	must(err)
	must(f.AddRepo(b.Context(), "owner", "big", map[string]string{"README.md": "# big\n"}))
	server := httptest.NewServer(f)
	b.Cleanup(func() { server.Close(); f.Close() })
	c, err := New(Options{URL: server.URL, Token: token, Repos: []string{"owner/big"}})
	must(err)
	must(c.Prepare(b.Context()))
	known, err := c.repoLabels(b.Context(), "owner/big")
	must(err)
	sdk, err := gitea.NewClient(server.URL, gitea.SetToken(token), gitea.SetGiteaVersion(""))
	must(err)
	for n := range benchIssues {
		option := gitea.CreateIssueOption{Title: fmt.Sprintf("issue %d", n+1), Body: benchText}
		if n%10 == 0 {
			option.Labels = []int64{known.ids["backlog"]}
		}
		if n%100 == 0 {
			option.Body += fmt.Sprintf("\n\nDepends on #%d\n", n+2)
		}
		_, _, err := sdk.CreateIssue("owner", "big", option)
		must(err)
	}
	return server.URL, token
}

func BenchmarkScan(b *testing.B) {
	url, token := newBenchForge(b)
	newClient := func() *Client {
		c, err := New(Options{URL: url, Token: token, Repos: []string{"owner/big"}})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	scan := func(c *Client) bool {
		f, err := c.Scan(b.Context())
		if err != nil || len(f.Issues) != benchIssues {
			b.Fatalf("%d issues, %v", len(f.Issues), err)
		}
		return f.More
	}
	b.Run("first", func(b *testing.B) { // until an issue can start
		var c *Client
		for b.Loop() {
			c = newClient()
			scan(c)
		}
		b.ReportMetric(float64(c.Requests()), "requests/op")
	})
	b.Run("cold", func(b *testing.B) { // until all issues have been read
		var c *Client
		for b.Loop() {
			c = newClient()
			for scan(c) {
			}
		}
		b.ReportMetric(float64(c.Requests()), "requests/op")
	})
	b.Run("idle", func(b *testing.B) {
		c := newClient()
		for scan(c) {
		}
		before := c.Requests()
		b.ReportAllocs()
		for b.Loop() {
			scan(c)
		}
		b.ReportMetric(float64(c.Requests()-before)/float64(b.N), "requests/op")
	})
	b.Run("facts", func(b *testing.B) { // the part of an idle scan that makes no request
		c := newClient()
		for scan(c) {
		}
		b.ReportAllocs()
		for b.Loop() {
			if f := c.facts(false); len(f.Issues) != benchIssues {
				b.Fatal(fmt.Sprint(len(f.Issues)))
			}
		}
	})
}
