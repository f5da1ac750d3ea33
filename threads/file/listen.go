package file

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minListenToken is the length of a token that cannot be guessed over a network: 16 letters and digits are 95 bits.
const minListenToken = 16

// readListeners reads the TCP addresses of the control API, the web hooks, the metrics and the control room. All but
// the metrics need a secret.
func (d *decoder) readListeners(t *table) {
	f := &d.config.Factory
	f.Listen = t.place("listen")
	f.ListenToken = t.token("listen_token", "", "")
	f.ListenHosts = t.hosts("listen_hosts")
	f.ListenHooks = t.place("listen_hooks")
	f.ListenMetrics = t.place("listen_metrics")
	f.ListenWeb = t.place("listen_web")
	d.readSignIn(t)
	if s, ok := get[string](t, "hooks_url", "an address in quotes"); ok && s != "" {
		f.HooksURL = t.address("hooks_url", "", s)
	}
	d.checkToken(t)
	if f.ListenHooks == "" && !t.has("listen_hooks") && f.HooksURL != "" {
		t.wrong("listen_hooks", "is not set, and hooks_url has no effect without it")
	}
	if f.ListenHooks != "" && d.config.Forge.WebhookSecret == "" && !d.mistaken("forge.webhook_secret") {
		t.wrong("listen_hooks", "needs [forge] webhook_secret: without it anyone could send hooks")
	}
	t.apart("listen_hooks", f.ListenHooks, "listen", f.Listen)
	t.apart("listen_metrics", f.ListenMetrics, "listen", f.Listen)
	t.apart("listen_metrics", f.ListenMetrics, "listen_hooks", f.ListenHooks)
	t.apart("listen_web", f.ListenWeb, "listen", f.Listen)
	t.apart("listen_web", f.ListenWeb, "listen_hooks", f.ListenHooks)
	t.apart("listen_web", f.ListenWeb, "listen_metrics", f.ListenMetrics)
}

// readSignIn reads how people sign in to the control room with their accounts on the forge.
func (d *decoder) readSignIn(t *table) {
	f := &d.config.Factory
	if s, ok := get[string](t, "web_url", "an address in quotes"); ok && s != "" {
		f.WebURL = t.address("web_url", "", s)
		if u, err := url.Parse(f.WebURL); err == nil && u.Path != "" {
			t.wrong("web_url", "is %q, want it without a path: the control room has none", s)
		}
	}
	f.WebClientID, _ = get[string](t, "web_client_id", "the client id in quotes, as the forge shows it")
	for _, k := range []struct{ name, value string }{{"web_url", f.WebURL}, {"web_client_id", f.WebClientID}} {
		if k.value != "" && f.ListenWeb == "" && !t.has("listen_web") {
			t.wrong(k.name, "has no effect without listen_web")
		}
	}
	if f.WebClientID != "" && f.ListenWeb != "" && f.WebAddress() == "" && !t.has("web_url") {
		t.wrong("web_client_id", `needs web_url, the control room as browsers call it, such as "https://room.example.org"`)
	}
}

// checkToken requires a token where people or programs must send one, and refuses names and tokens that have no use.
func (d *decoder) checkToken(t *table) {
	f := &d.config.Factory
	n := len(f.ListenToken.Reveal())
	missing := n == 0 && !d.mistaken(append(slices.Clone(t.path), "listen_token").String())
	switch {
	case f.Listen != "" && missing:
		t.wrong("listen", `needs listen_token, such as "$DISINTO_API_TOKEN": anyone who reaches it could end every session`)
	case f.ListenWeb != "" && missing:
		t.wrong("listen_web", `needs listen_token, such as "$DISINTO_API_TOKEN": people sign in with it`)
	case n > 0 && n < minListenToken:
		t.wrong("listen_token", "has %d characters, want at least %d", n, minListenToken)
	}
	switch {
	case f.Listen != "" || t.has("listen") || f.ListenWeb != "":
	case n > 0, len(f.ListenHosts) > 0 && f.ListenMetrics == "":
		t.wrong("listen", "is not set, and listen_token and listen_hosts have no effect without it")
	}
}

// apart refuses one address for two listeners.
func (t *table) apart(key, address, other, taken string) {
	if address != "" && address == taken {
		t.wrong(key, "is %q, the address of %s too: give each an address of its own", address, other)
	}
}

// mistaken reports whether a mistake in a key was already reported.
func (d *decoder) mistaken(key string) bool {
	return slices.ContainsFunc(d.mistakes, func(m Mistake) bool { return m.Key == key })
}

// place reads an address to listen on: host:port, or :port for every interface.
func (t *table) place(key string) string {
	const want = `want host:port such as "127.0.0.1:7070"`
	s, ok := get[string](t, key, want[len("want "):])
	if !ok || s == "" {
		return ""
	}
	u, err := url.Parse("tcp://" + s)
	if err != nil || u.Host != s || strings.ContainsAny(u.Hostname(), " %") {
		t.wrong(key, "is %q, %s", s, want)
		return ""
	}
	if port, err := strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
		t.wrong(key, "is %q, %s", s, want)
		return ""
	}
	return s
}

// hosts reads names of hosts as browsers send them, without a port.
func (t *table) hosts(key string) []string {
	list := t.set(key)
	for i, h := range list {
		list[i] = strings.ToLower(h)
		if u, err := url.Parse("http://" + h); err != nil || u.Host != h || u.Port() != "" || strings.HasSuffix(h, ":") {
			t.wrong(key, "has %q in it, want names of hosts without a port", h)
		}
	}
	return list
}
