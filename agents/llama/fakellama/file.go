package fakellama

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// slotAction saves, restores or erases a slot. It waits while the slot is busy.
func (s *Server) slotAction(w http.ResponseWriter, r *http.Request, body []byte) {
	if s.Folder == "" {
		refuse(w, 501, "This server does not support slots action. Start it with `--slot-save-path`")
		return
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/slots/"))
	if err != nil || n < 0 {
		refuse(w, 400, "Invalid slot ID")
		return
	}
	var req struct{ Filename string }
	_ = json.Unmarshal(body, &req)
	what := r.URL.Query().Get("action")
	name := req.Filename
	if what != "erase" && (name == "" || len(name) > 255 || strings.ContainsAny(name, "/\\:*?\"<>|")) {
		refuse(w, 400, "Invalid filename")
		return
	}
	at, ok := s.idle(r, n)
	if !ok {
		return
	}
	defer s.mu.Unlock()
	n %= len(s.slots)
	path := filepath.Join(s.Folder, req.Filename)
	switch what {
	case "save":
		s.save(w, at, n, req.Filename, path)
	case "restore":
		s.restore(w, at, n, req.Filename, path)
	case "erase":
		answer(w, map[string]any{"id_slot": n, "n_erased": len(at.conversation)})
		at.conversation = ""
	default:
		refuse(w, 400, "Invalid action")
	}
}

// idle waits until a slot is idle. It returns with s.mu held, unless the caller disconnects first.
func (s *Server) idle(r *http.Request, n int) (*slot, bool) {
	s.mu.Lock()
	s.wake()
	at := s.slots[n%len(s.slots)]
	for at.busy {
		free := make(chan struct{})
		s.wait = append(s.wait, free)
		s.mu.Unlock()
		select {
		case <-free:
		case <-r.Context().Done():
			return nil, false
		}
		s.mu.Lock()
	}
	return at, true
}

// save writes a file that begins with the model's name and is as large as the real state.
func (s *Server) save(w http.ResponseWriter, at *slot, n int, name, path string) {
	text := s.Model + "\x00" + at.conversation + "\x00"
	size := max(int64(len(at.conversation))*s.perToken(), int64(len(text)))
	err := os.WriteFile(path, []byte(text), 0o644)
	if err == nil {
		err = os.Truncate(path, size)
	}
	if err != nil { // the real server answers 200 with no byte written
		size = 0
	}
	answer(w, map[string]any{
		"id_slot": n, "filename": name, "n_saved": len(at.conversation), "n_written": size,
		"timings": map[string]any{"save_ms": 119.5},
	})
}

func (s *Server) restore(w http.ResponseWriter, at *slot, n int, name, path string) {
	text, err := os.ReadFile(path)
	model, rest, ok := strings.Cut(string(text), "\x00")
	conversation, _, whole := strings.Cut(rest, "\x00")
	if err != nil || !ok || !whole || model != s.Model || len(conversation) > s.context() {
		at.conversation = ""
		refuse(w, 400, "Unable to restore slot, no available space in KV cache or invalid slot save file")
		return
	}
	at.conversation, at.lost = conversation, s.Recurrent
	answer(w, map[string]any{
		"id_slot": n, "filename": name, "n_restored": len(conversation), "n_read": len(text),
		"timings": map[string]any{"restore_ms": 97.5},
	})
}
