package control

import (
	"bufio"
	"context"
	"math"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A document that cannot be encoded is answered with 500 and reported; the answer does not look like an empty
// document. An event that cannot be encoded is left out, and the stream continues.
func TestUnencodable(t *testing.T) {
	var feed Feed
	var told []string
	server := httptest.NewServer(Handler(
		func(path string, err error) { told = append(told, path+": "+err.Error()) },
		Get("/v1/infinite", func(context.Context, url.Values) (float64, error) { return math.Inf(1), nil }),
		Events("/v1/events", &feed),
	))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/v1/infinite")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 500 || len(told) != 1 || !strings.Contains(told[0], "/v1/infinite: ") {
		t.Errorf("got %s, reported %q, want 500 and the path", resp.Status, told)
	}
	resp, err = server.Client().Get(server.URL + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	feed.Send(EventHeld, math.NaN())
	feed.Send(EventHeld, "there")
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			break
		}
	}
	if lines.Text() != `data: "there"` {
		t.Errorf("got %q, want the second event", lines.Text())
	}
}
