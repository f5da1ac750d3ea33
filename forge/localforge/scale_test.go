package localforge

import (
	"fmt"
	"net/url"
	"testing"
	"time"
)

// bigWorld returns a world with many open issues; the last of them is labelled.
func bigWorld(b *testing.B, issues int) *world {
	w := newQuietWorld(b)
	w.want(201, "johba", "POST", harb+"/labels", object{"name": "backlog", "color": "#fff"})
	for n := range issues {
		w.file(fmt.Sprint("issue ", n))
	}
	w.want(200, "johba", "POST", fmt.Sprintf("%s/issues/%d/labels", harb, issues), object{"labels": []string{"backlog"}})
	return w
}

// BenchmarkList10000 measures one request of a scan of a large repository.
func BenchmarkList10000(b *testing.B) {
	w := bigWorld(b, 10_000)
	for _, row := range []struct{ name, query string }{
		{"first", "limit=50"},
		{"page", "limit=50&page=100"},
		{"label", "limit=50&labels=backlog"},
		{"since", "state=all&limit=50&since=" + url.QueryEscape(time.Now().Add(time.Hour).UTC().Format(time.RFC3339))},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				w.want(200, "dev", "GET", harb+"/issues?"+row.query, nil)
			}
		})
	}
}
