package session

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
	"codeberg.org/johba/disinto/forge"
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

// pullDesk keeps the pull request that is opened.
type pullDesk struct {
	Desk
	draft forge.PullDraft
}

func (d *pullDesk) OpenPull(_ context.Context, p forge.PullDraft) (int64, error) {
	d.draft = p
	return 7, nil
}

// A pull request says which hosts its session was refused, and the line that would allow them, but nothing of those
// that CLIs ask for anyway, and nothing where the proxy does not answer.
func TestRefusedInPull(t *testing.T) {
	const plain = "created by \n\nWhat I did."
	for said, want := range map[string]string{
		`[{"host":"evil.example:443","rule":"evil.example","times":3},{"host":"x:80\u0060","times":1}]`: plain +
			"\n\nIts egress kept this session from `evil.example:443, 3 times; x:80'`. " +
			"The line `egress = [\"evil.example\"]` of factory.toml would allow that.",
		`[{"host":"chatgpt.com:443","rule":"chatgpt.com","times":9}]`: plain, `null`: plain, `nothing`: plain,
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method+r.URL.Path+r.Header.Get("Proxy-Authorization") == "GET"+egress.Refused+"Basic c2Vzc2lvbjpwdw==" {
				_, _ = io.WriteString(w, said)
			}
		}))
		u, _ := url.Parse(proxy.URL)
		u.User = url.UserPassword("session", "pw")
		d := new(pullDesk)
		r := &run{
			Program: &Program{
				Environ: []string{"HTTPS_PROXY=" + u.String()}, Desk: d, Out: t.Output(), Now: time.Now,
			},
			work: work{Egress: "@npm"},
		}
		if reason, err := r.open(t.Context(), &promptData{}, "T", "What I did."); err != nil || reason != "opened #7" {
			t.Errorf("%s, %v", reason, err)
		}
		if d.draft.Body != want {
			t.Errorf("the proxy said %s: the pull request says\n%s\nwant\n%s", said, d.draft.Body, want)
		}
		proxy.Close()
	}
}
