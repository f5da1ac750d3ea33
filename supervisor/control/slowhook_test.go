package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Senders of slow bodies, however many, do not keep out a hook of the forge: the oldest is dropped.
func TestSlowHooks(t *testing.T) {
	signed := make(chan string, 1)
	server := httptest.NewServer(Hooks{
		Config: config, Signed: func(repo string) { signed <- repo }, Unsigned: func(string) {},
	}.Handler())
	t.Cleanup(server.Close)
	for range 3 * hooksAtOnce {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST /v1/hook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	}
	const body = `{"repository":{"full_name":"a/b"}}`
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/hook", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forgejo-Signature", hex.EncodeToString(mac.Sum(nil)))
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("a good hook among slow ones: got %s, want 202", resp.Status)
	}
	if got := <-signed; got != "a/b" {
		t.Errorf("signed repository %s, want a/b", got)
	}
}
