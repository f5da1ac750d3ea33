package fakellama

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// request is the union of the three APIs' requests.
type request struct {
	Model    string
	Prompt   string // of /completion
	System   json.RawMessage
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Slot *int `json:"id_slot"`
}

// api decodes a request's prompt and formats the answer. pins is false for /v1/messages, which ignores id_slot.
type api struct {
	pins   bool
	prompt func(*request) string
	answer func(u Used, content string) map[string]any
}

var apis = map[string]*api{
	"/completion": {true, func(r *request) string { return r.Prompt }, func(u Used, content string) map[string]any {
		return map[string]any{
			"content": content, "id_slot": u.Slot, "tokens_cached": u.Cached, "timings": timings(u, len(content)),
		}
	}},
	"/v1/chat/completions": {true, chat, func(u Used, content string) map[string]any {
		return map[string]any{
			"object":  "chat.completion",
			"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": content}}},
			"usage": map[string]any{
				"prompt_tokens": u.Cached + u.Computed, "completion_tokens": len(content),
				"prompt_tokens_details": map[string]any{"cached_tokens": u.Cached},
			}, "timings": timings(u, len(content)),
		}
	}},
	"/v1/messages": {false, chat, func(u Used, content string) map[string]any {
		return map[string]any{
			"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "text", "text": content}},
			"usage": map[string]any{
				"input_tokens": u.Computed, "cache_read_input_tokens": u.Cached, "output_tokens": len(content),
			},
		}
	}},
}

func timings(u Used, written int) map[string]any {
	return map[string]any{
		"cache_n": u.Cached, "prompt_n": u.Computed, "predicted_n": written,
		"prompt_per_second": ReadSpeed, "predicted_per_second": WriteSpeed,
	}
}

// chat is the chat template: the model's answer appears in the next prompt exactly as in the cache.
func chat(r *request) string {
	var b strings.Builder
	if len(r.System) > 0 {
		b.WriteString("<system>" + text(r.System) + "<end>")
	}
	for _, m := range r.Messages {
		b.WriteString("<" + m.Role + ">" + text(m.Content) + "<end>")
	}
	return b.String() + "<assistant>"
}

// text returns a string, or the concatenated texts of a list of parts.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(raw, &parts)
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// complete serves a completion request. It waits for a slot.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, body []byte, api *api) {
	var req request
	if json.Unmarshal(body, &req) != nil {
		refuse(w, 400, "the request is not JSON")
		return
	}
	pin := -1
	if api.pins && req.Slot != nil {
		pin = *req.Slot
	}
	prompt := api.prompt(&req)
	if len(prompt) >= s.context() {
		refuse(w, 400, "the request exceeds the available context size, try increasing it")
		return
	}
	at, u, ok := s.begin(r.Context(), prompt, pin)
	if !ok {
		return
	}
	if s.Work != nil {
		s.Work(u.Slot, prompt)
	}
	content := "ok"
	if r.Context().Err() != nil {
		content = "" // the slot still holds the prompt
	}
	s.end(at, content)
	answer(w, api.answer(u, content))
}

// begin waits for a slot and fills it with the prompt.
func (s *Server) begin(ctx context.Context, prompt string, pin int) (*slot, Used, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
	i := s.choose(prompt, pin)
	for i < 0 {
		free := make(chan struct{})
		s.wait = append(s.wait, free)
		s.counts.deferred++
		s.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
		}
		s.mu.Lock()
		s.counts.deferred--
		if ctx.Err() != nil {
			return nil, Used{}, false
		}
		i = s.choose(prompt, pin)
	}
	at := s.slots[i]
	cached := min(common(at.conversation, prompt), len(prompt)-1) // at least one token is computed
	if at.lost {
		cached = 0
	}
	s.task++
	at.lost, at.busy, at.task, at.conversation, at.written = false, true, s.task, prompt, 0
	at.cached, at.read = max(cached, 0), len(prompt)-max(cached, 0)
	s.counts.read += int64(at.read)
	s.keepIdle()
	return at, Used{Slot: i, Cached: at.cached, Computed: at.read}, true
}

// end frees the slot of a request, whose cache holds the answer too.
func (s *Server) end(at *slot, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	at.conversation += content
	at.busy, at.used, at.cached, at.written = false, s.used, 0, len(content)
	s.counts.written += int64(len(content))
	for _, free := range s.wait {
		close(free)
	}
	s.wait = nil
}

// common returns the length of the common prefix.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
