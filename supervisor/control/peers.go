//go:build linux

package control

import (
	"context"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// peerKey is the context key for why a connection is refused; "" if it is not.
type peerKey struct{}

// refusePeers refuses all requests of processes of other accounts, and of those for which barred returns true. It looks
// once at each connection. A nil barred bars none.
func refusePeers(server *http.Server, barred func(pid int) bool) {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, refusedPeer(peerOf(c), os.Geteuid(), barred))
	}
	h := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why, _ := r.Context().Value(peerKey{}).(string); why != "" {
			refuse(w, http.StatusForbidden, why)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refusedPeer returns why a process may not use the control socket; "" if it may. The socket's mode keeps other
// accounts out, but a session with the supervisor's account can change the mode.
func refusedPeer(peer *unix.Ucred, own int, barred func(pid int) bool) string {
	switch {
	case peer == nil: // not a unix socket
	case peer.Uid != 0 && int(peer.Uid) != own:
		return "only root and the supervisor's account may use the control socket"
	case barred != nil && barred(int(peer.Pid)):
		return "a session in a sandbox may not use the control socket"
	}
	return ""
}

// peerOf returns the process that made a connection, and its account; nil if c is not a unix socket. The PID is 0 for
// a process outside our PID namespaces.
func peerOf(c net.Conn) (peer *unix.Ucred) {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { peer, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer
}
