package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/threads"
)

// Guard is a handler for a TCP port: every request needs the token of [factory] listen_token, and a Host that names
// this factory. Without the check of the Host, a web page could make its own name resolve to our address. config
// returns the configuration in force; while that is nil or has no token, every request is refused.
func Guard(config func() *threads.Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := factory(config)
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case f.ListenToken == "":
			refuse(w, http.StatusServiceUnavailable, "not now: there is no valid configuration")
		case !namesUs(r.Host, f.Listen, f.ListenHosts):
			refuse(w, http.StatusMisdirectedRequest, wrongName)
		case !SameSecret(bearer(r), f.ListenToken.Reveal()):
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized,
				"cannot answer without the token of [factory] listen_token: send Authorization: Bearer TOKEN")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// checkHost is a handler for a TCP port that answers only if the Host names this factory: the host of listen's result,
// of web_url, or one of listen_hosts.
func checkHost(config func() *threads.Config, listen func(*threads.Factory) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := factory(config)
		if !namesUs(r.Host, listen(&f), f.ListenHosts) && !namesUs(r.Host, hostOfURL(f.WebURL), nil) {
			refuse(w, http.StatusMisdirectedRequest, wrongName)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// metricsOnly serves GET /metrics and nothing else.
func metricsOnly(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

// wrongName refuses a request whose Host is not one of our names.
const wrongName = "cannot answer under this name: add it to [factory] listen_hosts"

// factory returns [factory] of the configuration in force; the zero value without one.
func factory(config func() *threads.Config) threads.Factory {
	if c := config(); c != nil {
		return c.Factory
	}
	return threads.Factory{}
}

// namesUs reports whether a Host header names the address that we listen on, this machine, or a host in more.
func namesUs(header, listen string, more []string) bool {
	host := strings.ToLower(hostOf(header))
	if host == "" {
		return false
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	return loopback || host == strings.ToLower(hostOf(listen)) || slices.Contains(more, host)
}

// hostOf returns the host of host:port; the port may be missing.
func hostOf(address string) string {
	u, err := url.Parse("//" + address)
	if err != nil || u.Host != address {
		return ""
	}
	return u.Hostname()
}

// hostOfURL returns the host:port of an address; empty if it has none.
func hostOfURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func bearer(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// SameSecret reports whether said equals secret. It compares hashes, which takes the same time wherever the
// difference is, and hides the length.
func SameSecret(said, secret string) bool {
	a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
