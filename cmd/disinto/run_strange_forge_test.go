package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a forge makes the standard library log is a line of the supervisor's log. Before, net/http printed it to stderr
// by itself, past the logger.
func TestStandardLogGoesThroughTheLogger(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"))
		time.Sleep(100 * time.Millisecond) // the connection becomes idle
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		time.Sleep(100 * time.Millisecond)
	}))
	defer strange.Close()
	r := startDisinto(t, f.environ(nil), "run", "--yes", "--config", f.file(t.TempDir(), f.URL, strange.URL))
	var found string
	eventually(t, "an answer that nobody asked for is logged", func() bool {
		for line := range strings.Lines(r.read(r.stderr)) {
			if strings.Contains(line, "Unsolicited response") {
				found = line
			}
		}
		return strings.HasSuffix(found, "\n")
	})
	if !strings.Contains(found, " [INFO]  Unsolicited response") {
		t.Errorf("got the line %q, want one of the logger", found)
	}
}
