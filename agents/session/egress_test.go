package session

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
)

// The proxy is told once that the setup is over, before a CLI and before what verifies, whatever the session is for. A
// session whose proxy does not answer does not go on.
func TestEndSetup(t *testing.T) {
	status, told := http.StatusNoContent, ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = r.Method + " " + r.URL.Path + " " + r.Header.Get("Proxy-Authorization")
		w.WriteHeader(status)
	}))
	defer proxy.Close()
	u, _ := url.Parse(proxy.URL)
	u.User = url.UserPassword("session", "pw")
	r := &run{Program: &Program{Environ: []string{"HTTPS_PROXY=" + u.String()}}, work: work{Egress: "@npm"}}
	r.Room.Setup = agents.Commands{Argv: [][]string{{"true"}}}
	const want = "POST " + egress.SetupOver + " Basic c2Vzc2lvbjpwdw=="
	if err := r.endSetup(t.Context()); err != nil || told != want {
		t.Errorf("%v, the proxy heard %q, want %q", err, told, want)
	}
	told = ""
	if err := r.endSetup(t.Context()); err != nil || told != "" {
		t.Errorf("again: %v, the proxy heard %q", err, told)
	}
	status, r.setupOver = http.StatusProxyAuthRequired, false
	if _, out := r.runCLI(t.Context(), nil, ""); out.Result != agents.Failed || told != want {
		t.Errorf("a CLI started before the setup was over: %+v", out)
	}
	told = ""
	if _, err := r.verifyTwice(t.Context()); err == nil || told != want {
		t.Errorf("commands verified before the setup was over: %v", err)
	}
	if err := r.endSetup(t.Context()); err == nil || !strings.Contains(err.Error(), "407") {
		t.Errorf("refused: %v", err)
	}
	told, r.Egress = "", ""
	if err := r.endSetup(t.Context()); err != nil || told != "" || r.hostWords() != "" {
		t.Errorf("without egress: %v, %q, %q", err, told, r.hostWords())
	}
	r.Egress = "@npm git.lan:3000"
	if got := r.hostWords(); !strings.Contains(got, "@npm git.lan:3000") || !strings.Contains(got, "403") {
		t.Errorf("the prompt says %q", got)
	}
}
