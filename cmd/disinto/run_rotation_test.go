package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/nomad/fakenomad"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// rotation is a factory all of whose secrets are in secrets.env, beside a factory.toml that does not change.
type rotation struct {
	*testForge
	state, path, keys string // keys has a line for each session: the API keys that it got
	api, hooks        string
	environ           map[string]string
	secrets           map[string]string
}

// rotate changes variables of secrets.env.
func (r *rotation) rotate(changes map[string]string) {
	r.t.Helper()
	maps.Copy(r.secrets, changes)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.secrets)) {
		text.WriteString(name + "=" + r.secrets[name] + "\n")
	}
	file := filepath.Join(filepath.Dir(r.path), "secrets.env")
	if err := os.WriteFile(file+".new", []byte(text.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		r.t.Fatal(err)
	}
}

// answer returns the status of a request.
func (r *rotation) answer(method, address string, header map[string]string, body string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+address, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (r *rotation) asks(token string) int {
	return r.answer(http.MethodGet, r.api+"/v1/state", map[string]string{"Authorization": "Bearer " + token}, "")
}

func (r *rotation) hook(secret string) int {
	body := `{"repository":{"full_name":"` + demo.Repo + `"}}`
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return r.answer(http.MethodPost, r.hooks+"/v1/hook", map[string]string{
		"Content-Type": "application/json", "X-Forgejo-Signature": hex.EncodeToString(sum.Sum(nil)),
	}, body)
}

// newRotation returns a factory in which every secret is wrong.
func newRotation(t *testing.T, nomad string) *rotation {
	f, dir := newTestForge(t), t.TempDir()
	r := &rotation{
		testForge: f, state: t.TempDir(), keys: filepath.Join(dir, "keys"), api: deadAddress(t), hooks: deadAddress(t),
		environ: map[string]string{"ANTHROPIC_API_KEY": "old-inherited"},
		secrets: map[string]string{
			"FORGE_TOKEN": "wrong-wrong-wrong", "MODEL_KEY": "old-of-thread", "API": "old-0123456789abcdef", "HOOK": "old-hook",
			"INBOX": "generic+http://" + deadAddress(t), "CLUSTER": "old-cluster",
		},
	}
	for name := range f.Tokens {
		if strings.HasPrefix(name, "FORGE_TOKEN_") {
			r.secrets[name] = "wrong-" + strings.ToLower(name)
		}
	}
	script := filepath.Join(dir, "agent.sh")
	f.write(script, `echo "$ANTHROPIC_API_KEY $OPENAI_API_KEY" >> `+r.keys+`
case $ANTHROPIC_API_KEY$OPENAI_API_KEY in
*old*) echo '{"outcome":"limited","reason":"no credit left"}' > "$DISINTO_RESULT"; exit 1;;
esac
exec sleep 3600
`)
	r.path = f.file(r.state, append(f.justOne(),
		fmt.Sprintf("command = [%q, \"demo-agent\"]", executable(t)), fmt.Sprintf("command = [\"sh\", %q]", script),
		"[forge]", "[forge]\nwebhook_secret = \"$HOOK\"",
		"[factory]", fmt.Sprintf("[notify]\nurls = [\"$INBOX\"]\n[nomad]\naddress = %q\ntoken = \"$CLUSTER\"\n"+
			"[threads.nodes]\nbackend = \"anthropic\"\nexecutor = \"nomad\"\nagents = [\"dev-node\"]\n[factory]\n"+
			"sandbox_write = [%q]\nlisten = %q\nlisten_token = \"$API\"\nlisten_hooks = %q", nomad, dir, r.api, r.hooks),
		`backend = "local"`, "backend = \"anthropic\"\nenv = { OPENAI_API_KEY = \"$MODEL_KEY\" }")...)
	r.rotate(nil)
	return r
}

// Every kind of secret can be changed in secrets.env while the supervisor runs: the change counts within seconds, the
// old value does not count any more, and what the old one held goes on.
func TestRotation(t *testing.T) {
	t.Parallel()
	fake := fakenomad.New(sharedDir(t), startTask(t))
	t.Cleanup(fake.Close)
	cluster, err := url.Parse(newGateway(t, fake).server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(cluster)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Nomad-Token") != "new-cluster" {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(door.Close)
	r := newRotation(t, door.URL)
	in := newInbox(t)
	run := startDisinto(t, r.testForge.environ(r.environ), "run", "--yes", "--config", r.path)

	unsettled := func(d *control.Document) bool {
		return slices.ContainsFunc(d.Problems, func(p string) bool { return strings.Contains(p, "Permission denied") })
	}
	status(t, r.state, "Nomad refuses the old token", unsettled)
	r.rotate(map[string]string{"CLUSTER": "new-cluster"})
	status(t, r.state, "Nomad accepts the new one", func(d *control.Document) bool { return !unsettled(d) })

	own := func(a control.AlarmDocument) bool {
		return a.Code == threads.TokenRejected && a.About == control.OwnToken
	}
	status(t, r.state, "the own token is rejected", func(d *control.Document) bool {
		return slices.ContainsFunc(d.Alarms, own)
	})
	r.rotate(map[string]string{"INBOX": "generic+" + in.URL})
	eventually(t, "a message comes to the new url", func() bool { return in.about("token") > 0 })

	r.rotate(map[string]string{"FORGE_TOKEN": r.Tokens["FORGE_TOKEN"]})
	rejected := func(a control.AgentDocument) bool { return a.Code == threads.TokenRejected }
	status(t, r.state, "the forge is read, and rejects an agent's token", func(d *control.Document) bool {
		return !slices.ContainsFunc(d.Alarms, own) && slices.ContainsFunc(d.Agents, rejected)
	})
	r.rotate(r.Tokens)
	parked := func(x control.ThreadDocument) bool { return strings.Contains(x.ParkedWhy, "no credit left") }
	status(t, r.state, "the agent works at once, and its key has no credit", func(d *control.Document) bool {
		return !slices.ContainsFunc(d.Agents, rejected) && slices.ContainsFunc(d.Threads, parked)
	})
	r.rotate(map[string]string{"MODEL_KEY": "new-of-thread", "ANTHROPIC_API_KEY": "new-inherited"})
	var got []string
	eventually(t, "an agent works with the new keys", func() bool {
		got = strings.Fields(run.read(r.keys))
		return len(got) >= 4 && slices.Equal(got[len(got)-2:], []string{"new-inherited", "new-of-thread"})
	})
	if !slices.Equal(got[:2], []string{"old-inherited", "old-of-thread"}) {
		t.Errorf("the sessions got the keys %q", got)
	}

	if a, h := r.asks("old-0123456789abcdef"), r.hook("old-hook"); a != http.StatusOK || h != http.StatusAccepted {
		t.Errorf("before the change: got %d for the token and %d for a hook", a, h)
	}
	r.rotate(map[string]string{"API": "new-0123456789abcdef", "HOOK": "new-hook"})
	eventually(t, "the new token counts", func() bool { return r.asks("new-0123456789abcdef") == http.StatusOK })
	if old, now := r.asks("old-0123456789abcdef"), r.hook("new-hook"); old != http.StatusUnauthorized ||
		now != http.StatusAccepted {
		t.Errorf("got %d for the old token and %d for a hook with the new secret", old, now)
	}
	if old := r.hook("old-hook"); old != http.StatusForbidden {
		t.Errorf("got %d for a hook with the old secret", old)
	}
	for _, secret := range r.secrets {
		if said := run.read(run.stderr); len(secret) > 7 && strings.Contains(said, secret) {
			t.Errorf("the log has the secret %q:\n%s", secret, said)
		}
	}
}
