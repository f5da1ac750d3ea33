//go:build linux

package control

import (
	"context"
	"net"
	"net/http"

	"golang.org/x/sys/unix"
)

// peerKey is the context key for whether a connection is barred.
type peerKey struct{}

// refusePeers refuses all requests of processes for which barred returns true. It calls barred once for each
// connection.
func refusePeers(server *http.Server, barred func(pid int) bool) {
	if barred == nil {
		return
	}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, barred(peerOf(c)))
	}
	h := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if no, _ := r.Context().Value(peerKey{}).(bool); no {
			refuse(w, http.StatusForbidden, "a session in a sandbox may not use the control socket")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// peerOf returns the PID of the process that made a connection. It is 0 for a process outside our PID namespaces, and
// if c is not a unix socket.
func peerOf(c net.Conn) int {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
