package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// recipientOf parses a url as factory.toml does.
func recipientOf(t *testing.T, url string) threads.Recipient {
	t.Helper()
	return configOf(t, url).Notify.To[0]
}

// configOf returns a configuration with [notify] urls.
func configOf(t *testing.T, urls ...string) *threads.Config {
	t.Helper()
	text := fmt.Sprintf("[forge]\nurl = \"http://forge\"\ntoken = \"t\"\nrepos = [\"johba/harb\"]\n[threads.llama]\n"+
		"backend = \"local\"\nagents = [\"dev-qwen\"]\n[notify]\nurls = [\"%s\"]\n"+
		"on = [\"needs-human\", \"merged\", \"parked\", \"budget\", \"down\"]\n", strings.Join(urls, `", "`))
	if len(urls) == 0 {
		text, _, _ = strings.Cut(text, "[notify]")
	}
	c, err := file.Decode("factory.toml", text, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var testLetter = Letter{ID: "id-1", Title: "disinto needs you", Text: "ä word\nof two lines", Link: "http://forge/x"}

// Each kind of recipient gets the request that its server expects.
func TestSendHTTP(t *testing.T) {
	const text = "disinto needs you\nä word\nof two lines\nhttp://forge/x"
	tests := []struct {
		url  string // HOST is replaced
		want string // method, path, authorization
		body map[string]any
	}{
		{"ntfy://:tk_123@HOST/base/mine?scheme=http", "POST /base/ Bearer tk_123", map[string]any{
			"topic": "mine", "title": "disinto needs you", "message": "ä word\nof two lines", "click": "http://forge/x",
		}},
		{"generic+http://u:p@HOST/hook?key=1", "POST /hook?key=1 Basic dTpw", map[string]any{
			"title": "disinto needs you", "message": "ä word\nof two lines", "link": "http://forge/x",
		}},
		{
			"matrix://:tok@HOST/?rooms=!a/b:h&scheme=http",
			"PUT /_matrix/client/v3/rooms/%21a%2Fb:h/send/m.room.message/id-1 Bearer tok",
			map[string]any{"msgtype": "m.text", "body": text, "m.mentions": map[string]any{}},
		},
	}
	for _, tt := range tests {
		var got string
		var body map[string]any
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = strings.TrimSpace(r.Method + " " + r.RequestURI + " " + r.Header.Get("Authorization"))
			_ = json.NewDecoder(r.Body).Decode(&body)
		}))
		err := Send(t.Context(), recipientOf(t, strings.Replace(tt.url, "HOST", server.Listener.Addr().String(), 1)),
			testLetter)
		server.Close()
		if err != nil || got != tt.want || fmt.Sprint(body) != fmt.Sprint(tt.body) {
			t.Errorf("%s: error %v\n got %s %v\nwant %s %v", tt.url, err, got, body, tt.want, tt.body)
		}
	}
}

// Only a bounded part of an answer is read, and no redirect is followed.
func TestSendRefused(t *testing.T) {
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	defer other.Close()
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"refused", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "{\"error\":\"no\x1b[31m\"}\n"+strings.Repeat("x", 1<<20))
		}, `it answers with 403 Forbidden {"error":"no[31m"} ` + strings.Repeat("x", 81) + "…"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "it answers with Temporary Redirect: configure the address that it redirects to"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, ""},
		{
			"long header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-A", strings.Repeat("x", 1<<20)) },
			"net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted",
		},
	}
	for _, tt := range tests {
		server := httptest.NewServer(tt.answer)
		to := recipientOf(t, "ntfy://:s3cret@"+server.Listener.Addr().String()+"/s3cret-topic?scheme=http")
		err := Send(t.Context(), to, testLetter)
		server.CloseClientConnections()
		server.Close()
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || strings.Contains(got, "s3cret") {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
	if elsewhere {
		t.Error("the redirect was followed")
	}
}

// A server that is missing or never answers is an error in time, without the url.
func TestSendSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	for _, url := range []string{
		"ntfy://:s3cret@" + address + "/s3cret?scheme=http", "generic+http://" + address + "/s3cret?s3cret",
		"generic+https://" + address + "/s3cret",
		"matrix://:s3cret@" + address + "/?rooms=!s3cret:h&scheme=http", "smtp://u:s3cret@" + address +
			"/?from=a@b&to=s3cret@d",
	} {
		for _, silent := range []bool{true, false} {
			to, wait := recipientOf(t, url), 50*time.Millisecond
			if !silent {
				to, wait = recipientOf(t, strings.Replace(url, address, "127.0.0.1:1", 1)), time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			err := Send(ctx, to, testLetter)
			cancel()
			if err == nil || strings.Contains(err.Error(), "s3cret") ||
				silent != (err.Error() == "it does not answer in time") {
				t.Errorf("%s, silent %v: got %v", to.String(), silent, err)
			}
		}
	}
	_ = l.Close()
}

// sink is a mail server that accepts one mail.
type sink struct {
	l    net.Listener
	said chan string // everything that the client sent
}

func newSink(t *testing.T, host, extensions string) *sink {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &sink{l, make(chan string, 1)}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		s.said <- talk(conn, extensions)
	}()
	return s
}

// talk speaks SMTP and returns everything that the client sent.
func talk(conn net.Conn, extensions string) string {
	var said strings.Builder
	fmt.Fprint(conn, "220 sink\r\n")
	in, inData := bufio.NewScanner(conn), false
	for in.Scan() {
		said.WriteString(in.Text() + "\n")
		switch verb, _, _ := strings.Cut(in.Text(), " "); {
		case inData && in.Text() == ".":
			inData = false
			fmt.Fprint(conn, "250 taken\r\n")
		case inData:
		case verb == "EHLO":
			fmt.Fprint(conn, "250-sink\r\n"+extensions+"250 8BITMIME\r\n")
		case verb == "AUTH":
			fmt.Fprint(conn, "235 welcome\r\n")
		case verb == "DATA":
			inData = true
			fmt.Fprint(conn, "354 go on\r\n")
		case verb == "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return said.String()
		default:
			fmt.Fprint(conn, "250 ok\r\n")
		}
	}
	return said.String()
}

func TestSendMail(t *testing.T) {
	s := newSink(t, "127.0.0.1", "250-AUTH PLAIN\r\n")
	to := recipientOf(t, "smtp://u:p@"+s.l.Addr().String()+"/?from=factory@b.org&to=c@d.org,e@f.org")
	if err := Send(t.Context(), to, testLetter); err != nil {
		t.Fatal(err)
	}
	said := <-s.said
	for _, want := range []string{
		"AUTH PLAIN AHUAcA==\n", "MAIL FROM:<factory@b.org>", "RCPT TO:<c@d.org>\nRCPT TO:<e@f.org>\n",
		"From: factory@b.org\nTo: c@d.org, e@f.org\nSubject: disinto needs you\nDate: ", "Message-ID: <id-1@b.org>\n",
		"\n\n=C3=A4 word\nof two lines\n\nhttp://forge/x\n.\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the mail lacks %q:\n%s", want, said)
		}
	}
}

// A password goes to another host only over TLS, and a server that talks without end is cut off.
func TestSendMailRefused(t *testing.T) {
	s := newSink(t, "127.0.0.2", "250-AUTH PLAIN\r\n") // another host to net/smtp
	err := Send(t.Context(), recipientOf(t, "smtp://u:s3cret@"+s.l.Addr().String()+"/?from=a@b&to=c@d"), testLetter)
	if err == nil || err.Error() != "cannot sign in: unencrypted connection" {
		t.Errorf("a password without TLS: got %v", err)
	}
	if said := <-s.said; strings.Contains(said, "AUTH") {
		t.Errorf("the client sent %q", said)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for err == nil {
			_, err = conn.Write([]byte(strings.Repeat("220-", 1000)))
		}
	}()
	err = Send(t.Context(), recipientOf(t, "smtp://"+l.Addr().String()+"/?from=a@b&to=c@d"), testLetter)
	if err == nil || err.Error() != "the server's answers are too long" {
		t.Errorf("an endless greeting: got %v", err)
	}
}
