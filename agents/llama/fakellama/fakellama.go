// Package fakellama is a llama-server for tests. Its caches behave as measured on the real server and as in its source
// (August 2026): slots that hold their last conversation, a cache in memory that finds a conversation by its prefix in
// any slot, files, and the errors of each. Its model writes "ok", and a token is a byte.
package fakellama

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Server is an http.Handler. Its exported fields must not change once it serves. The zero value is a server with one
// slot and no optional feature.
type Server struct {
	Model   string
	Path    string // of the model's file
	Slots   int    // 0 means 1
	Context int    // of a slot, in tokens; 0 means 32768
	Unified bool   // idle slots are copied to memory and emptied when another slot starts
	RAM     int64  // size of the cache in memory, in bytes; 0 means none
	// PerToken is the size of a token's state, in bytes; 0 means 1024.
	PerToken int64
	Folder   string // where slots are saved; empty: started without --slot-save-path
	Metrics  bool   // --metrics
	NoSlots  bool   // --no-slots
	// Recurrent says that files do not store the model's state: restore succeeds, but the next request computes
	// everything.
	Recurrent bool
	// Work is called while a request computes, with its prompt, and can block; nil means that requests take no time. It
	// is called from several goroutines at the same time.
	Work func(slot int, prompt string)

	mu     sync.Mutex // guards the fields below
	slots  []*slot
	memory []string // conversations, oldest first
	wait   []chan struct{}
	task   int64
	used   int64 // counts uses of slots
	counts counts
	asleep bool
}

// slot is a slot, with the conversation that its cache holds.
type slot struct {
	conversation string
	busy         bool
	lost         bool // restored from a file that did not store the state
	used, task   int64
	cached, read int
	written      int
}

type counts struct{ read, written, deferred int64 }

// Used reports how many tokens of one request were cached and computed.
type Used struct{ Slot, Cached, Computed int }

// start creates the slots before the first request. The caller holds s.mu.
func (s *Server) start() {
	if s.slots != nil {
		return
	}
	for range max(s.Slots, 1) {
		s.slots = append(s.slots, &slot{used: -1, task: -1})
	}
}

// Restart ends the server's process and starts the next one: only files survive.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots, s.memory, s.counts, s.task = nil, nil, counts{}, 0
}

// Sleep unloads the model until the next request.
func (s *Server) Sleep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep, s.slots, s.memory = true, nil, nil
}

// ServeHTTP answers as llama-server does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	switch path := r.URL.Path; {
	case path == "/health" || path == "/v1/health":
		answer(w, map[string]string{"status": "ok"})
	case path == "/props":
		s.props(w)
	case path == "/v1/models":
		answer(w, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": s.Model, "meta": map[string]any{"n_ctx": s.context()},
		}}})
	case path == "/metrics" && !s.Metrics:
		refuse(w, 501, "This server does not support metrics endpoint. Start it with `--metrics`")
	case path == "/metrics":
		s.metrics(w)
	case path == "/slots" && s.NoSlots:
		refuse(w, 501, "This server does not support slots endpoint. Start it with `--slots`")
	case path == "/slots":
		s.list(w)
	case strings.HasPrefix(path, "/slots/") && r.Method == http.MethodPost:
		s.slotAction(w, r, body)
	case r.Method == http.MethodPost && apis[path] != nil:
		s.complete(w, r, body, apis[path])
	default:
		refuse(w, 404, "File Not Found")
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, words string) {
	kind := map[int]string{400: "invalid_request_error", 404: "not_found_error", 501: "not_supported_error"}[code]
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": words, "type": kind}})
}

func (s *Server) context() int {
	if s.Context == 0 {
		return 32768
	}
	return s.Context
}

func (s *Server) perToken() int64 {
	if s.PerToken == 0 {
		return 1024
	}
	return s.PerToken
}

func (s *Server) props(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.context()}, "total_slots": max(s.Slots, 1),
		"model_alias": s.Model, "model_path": s.Path, "endpoint_slots": !s.NoSlots, "endpoint_metrics": s.Metrics,
		"build_info": "b1-fake", "is_sleeping": s.asleep,
	})
}

func (s *Server) metrics(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
	busy := 0
	for _, slot := range s.slots {
		if slot.busy {
			busy++
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, row := range []struct {
		name  string
		value float64
	}{
		{"prompt_tokens_total", float64(s.counts.read)},
		{"prompt_seconds_total", float64(s.counts.read) / ReadSpeed},
		{"tokens_predicted_total", float64(s.counts.written)},
		{"tokens_predicted_seconds_total", float64(s.counts.written) / WriteSpeed},
		{"requests_processing", float64(busy)},
		{"requests_deferred", float64(s.counts.deferred)},
	} {
		fmt.Fprintf(w, "# HELP llamacpp:%s of the fake\n# TYPE llamacpp:%s counter\nllamacpp:%s %v\n",
			row.name, row.name, row.name, row.value)
	}
}

// The speeds that /metrics and timings report, in tokens per second.
const (
	ReadSpeed  = 100
	WriteSpeed = 10
)

// list serves /slots. The count of cached tokens is 0 after the request has ended.
func (s *Server) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
	list := make([]map[string]any, len(s.slots))
	for i, slot := range s.slots {
		list[i] = map[string]any{"id": i, "n_ctx": s.context(), "speculative": false, "is_processing": slot.busy}
		if slot.task < 0 {
			continue
		}
		list[i]["id_task"], list[i]["n_prompt_tokens"] = slot.task, len(slot.conversation)
		list[i]["n_prompt_tokens_processed"], list[i]["n_prompt_tokens_cache"] = slot.read, slot.cached
		list[i]["next_token"] = []any{map[string]any{"n_decoded": slot.written}}
	}
	answer(w, list)
}

// wake loads the model of a sleeping server. The caller holds s.mu.
func (s *Server) wake() {
	s.asleep = false
	s.start()
}
