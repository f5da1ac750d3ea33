package main

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
)

// supervisorThat answers each request for its state with the next document, and then always with the last.
func supervisorThat(t *testing.T, documents ...control.Document) (state string, asked *int) {
	t.Helper()
	state, asked = t.TempDir(), new(int)
	l, err := net.Listen("unix", filepath.Join(state, "disinto.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(documents[min(*asked, len(documents)-1)])
		*asked++
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return state, asked
}

// TestSettling checks how long hire and retire wait until the supervisor no longer uses an old token.
func TestSettling(t *testing.T) {
	document := func(generation int, agents []string, busy ...string) (d control.Document) {
		d.Config.Generation = generation
		for _, name := range agents {
			d.Agents = append(d.Agents, control.AgentDocument{Name: name})
		}
		for _, name := range busy {
			d.Sessions = append(d.Sessions, control.SessionDocument{Agent: name, Repo: "a/b", Number: 11})
		}
		return d
	}
	all, others := []string{"dev-x", "dev-y"}, []string{"dev-y"}
	tests := []struct {
		name      string
		retiring  bool
		documents []control.Document
		why       string
		asked     int
	}{
		{"hired, and read at the third request", false, []control.Document{
			document(1, all), document(1, all), document(1, all),
			document(2, all),
		}, "", 5},
		{
			"hired, at work", false,
			[]control.Document{document(1, all), document(2, all, "dev-y", "dev-x")},
			"dev-x works on a/b#11", 3,
		},
		{"hired, others at work", false, []control.Document{document(1, all), document(2, all, "dev-y")}, "", 3},
		{"retired, and read at the second request", true, []control.Document{
			document(1, all), document(1, all),
			document(2, others),
		}, "", 4},
		{"retired before", true, []control.Document{document(2, others)}, "", 3},
		{"retired, and its session ends", true, []control.Document{
			document(1, all), document(2, others, "dev-x"),
			document(2, others, "dev-x"), document(2, others),
		}, "", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state, asked := supervisorThat(t, tt.documents...)
			s := &configWaiter{agent: "dev-x", retiring: tt.retiring}
			s.start(t.Context(), state)
			why, err := s.stillInUse(t.Context())
			if err != nil || why != tt.why || *asked != tt.asked {
				t.Errorf("got %q, %v after %d requests, want %q after %d", why, err, *asked, tt.why, tt.asked)
			}
		})
	}
	s := &configWaiter{agent: "dev-x"}
	s.start(t.Context(), t.TempDir())
	if why, err := s.stillInUse(t.Context()); why != "" || err != nil {
		t.Errorf("no supervisor: got %q, %v", why, err)
	}
}
