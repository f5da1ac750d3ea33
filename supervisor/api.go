package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// eventPulse is how often a silent event stream says that it is alive, so that a reader who is gone is noticed.
const eventPulse = 15 * time.Second

// serve begins to answer on the control socket. It returns how to end that.
func (s *Supervisor) serve() (end func(), err error) {
	listen := s.Listen
	if listen == nil {
		listen = ListenUnix
	}
	l, err := listen(filepath.Join(s.StateDir, "disinto.sock"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the control socket: %w", err)
	}
	server := &http.Server{Handler: s.ownHandler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: s.log.StandardLogger(nil)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the control socket failed: " + text(err))
		}
	}()
	return func() {
		s.events.Close()
		_ = server.Close()
		<-done
	}, nil
}

// ownHandler is Handler and what only our own user may have done, over the socket: it names a program to run.
func (s *Supervisor) ownHandler() http.Handler {
	mux, upgrade := http.NewServeMux(), post((*Supervisor).replace)
	mux.HandleFunc("POST /v1/upgrade", func(w http.ResponseWriter, r *http.Request) { upgrade(s, w, r) })
	mux.Handle("/", s.Handler())
	return mux
}

// maxSocketPath is the longest path that the kernel has room for in a socket's address.
const maxSocketPath = 107

// ListenUnix listens on a socket that only our own user can use. A socket that is there already is a dead supervisor's:
// we hold the lock of its directory.
func ListenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s is %d bytes long, and a socket's path can have %d: say a shorter --state", path, len(path), maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Not chmod afterwards: who connects in between stays connected.
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return net.Listen("unix", path)
}

// Handler answers the control API. It reads memory only: no question waits for the forge.
func (s *Supervisor) Handler() http.Handler {
	s.init()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /v1/state", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, s.Document())
	})
	mux.HandleFunc("GET /v1/fleet", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, s.Fleet())
	})
	mux.HandleFunc("GET /v1/why", s.why)
	mux.HandleFunc("GET /v1/convoys", s.convoys)
	mux.HandleFunc("GET /v1/events", s.stream)
	mux.HandleFunc("GET /v1/log", s.sendLog)
	for pattern, do := range commands {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { do(s, w, r) })
	}
	return mux
}

// why explains one item.
func (s *Supervisor) why(w http.ResponseWriter, r *http.Request) {
	ex, status, err := s.explain(r.URL.Query().Get("ref"))
	if err != nil {
		refuse(w, status, err)
		return
	}
	answer(w, http.StatusOK, ex)
}

func (s *Supervisor) explain(said string) (threads.Explanation, int, error) {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return threads.Explanation{}, http.StatusServiceUnavailable, s.noConfigLocked()
	}
	home := ""
	if len(s.config.Forge.Repos) == 1 {
		home = s.config.Forge.Repos[0]
	}
	item, err := forge.ParseRef(said, home)
	if err != nil {
		return threads.Explanation{}, http.StatusBadRequest, err
	}
	ex, err := threads.Explain(s.snapshotLocked(time.Now(), room), item)
	if err != nil {
		return threads.Explanation{}, http.StatusNotFound, err
	}
	return ex, http.StatusOK, nil
}

// stream sends events as they happen, until the reader goes, is too slow, or the supervisor stops.
func (s *Supervisor) stream(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	events, leave := s.Events()
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	pulse := time.NewTicker(eventPulse)
	defer pulse.Stop()
	for {
		// A reader that takes nothing for so long is stuck, and so would this be.
		_ = out.SetWriteDeadline(time.Now().Add(2 * eventPulse))
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-pulse.C:
			fmt.Fprint(w, ":\n\n")
		case e, open := <-events:
			if !open {
				return
			}
			data, err := json.Marshal(e.Data)
			if err != nil {
				return
			}
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
		}
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse says no in one line.
func refuse(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]string{"error": text(err)})
}

// noConfigLocked says that there is no valid configuration, and the first thing that is wrong with it.
func (s *Supervisor) noConfigLocked() error {
	if s.configErr == nil {
		return errors.New("cannot explain anything without a configuration")
	}
	first, _, _ := strings.Cut(s.configErr.Error(), "\n")
	return fmt.Errorf("cannot explain anything without a valid configuration: %s", first)
}
