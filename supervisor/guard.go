package supervisor

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// guarded is the control API for whoever can reach a TCP port: every request has to bring the token, and has to call us by
// a name of ours. Without the second, a page that somebody's browser shows could have its own name resolved to us.
func (s *Supervisor) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		config := s.config
		s.mu.Unlock()
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case config == nil || config.Factory.ListenToken == "":
			refuse(w, http.StatusServiceUnavailable, errors.New("not now: there is no valid configuration"))
		case !ourName(r.Host, config.Factory.Listen, config.Factory.ListenHosts):
			refuse(w, http.StatusMisdirectedRequest, errors.New("cannot answer under this name: add it to [factory] listen_hosts"))
		case !sameSecret(bearer(r), config.Factory.ListenToken.Reveal()):
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, errors.New("cannot answer without the token of [factory] listen_token: send Authorization: Bearer TOKEN"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ourName reports whether a Host header names the address that we listen on, this machine, or one of more.
func ourName(header, listen string, more []string) bool {
	host := strings.ToLower(hostOf(header))
	own := strings.ToLower(hostOf(listen))
	ip := net.ParseIP(host)
	return host != "" && (host == own || host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(more, host))
}

// hostOf is the host of host:port, where the port may be missing.
func hostOf(address string) string {
	u, err := url.Parse("//" + address)
	if err != nil || u.Host != address {
		return ""
	}
	return u.Hostname()
}

func bearer(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// sameSecret takes the same time whatever is wrong: it compares hashes, which also hides the length.
func sameSecret(said, secret string) bool {
	a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
