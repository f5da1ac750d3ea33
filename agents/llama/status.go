package llama

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Fetch returns the server's description of itself and, with work, its slots and counters, except those that the server
// does not report. With work, Fetch counts as a request: a server that unloads its model when idle would never do so.
// An error means that the server is not llama.cpp's, or does not answer.
func (c *Client) Fetch(ctx context.Context, work bool) (agents.Server, error) {
	s, err := c.props(ctx)
	if err != nil {
		return agents.Server{}, err
	}
	s.PerToken, s.Forgets = readMemory(s.Path)
	if s.Asleep || !work { // any other request would make a sleeping server load its model
		return s.Bounded(), nil
	}
	if at, err := c.Slots(ctx); err == nil {
		s.At = at
	}
	if work, err := c.work(ctx); err == nil {
		s.Work = work
	}
	return s.Bounded(), nil
}

// Describe returns the server's description of itself without slots and counters, or zero values if it has none.
func (c *Client) Describe(ctx context.Context) agents.Server {
	s, _ := c.props(ctx)
	return s.Bounded()
}

func (c *Client) props(ctx context.Context) (agents.Server, error) {
	text, err := c.get(ctx, "/props", maxAnswer)
	if err != nil {
		return agents.Server{}, err
	}
	var p struct {
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots  int    `json:"total_slots"`
		Alias  string `json:"model_alias"`
		Path   string `json:"model_path"`
		Build  string `json:"build_info"`
		Asleep bool   `json:"is_sleeping"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return agents.Server{}, fmt.Errorf("cannot read the properties of %s: %w", c.root, err)
	}
	if p.Slots == 0 && p.Settings.Context == 0 {
		return agents.Server{}, fmt.Errorf("%s does not report its slots: it is not a llama-server, or an old one", c.root)
	}
	return agents.Server{
		Model: nameOf(p.Alias), Path: p.Path, Build: p.Build, Slots: p.Slots, Context: p.Settings.Context, Asleep: p.Asleep,
	}, nil
}

// nameOf returns a model's name. A server without a configured name reports the path of the file, and accepts any name.
func nameOf(alias string) string {
	if name, ok := strings.CutSuffix(path.Base(alias), ".gguf"); ok {
		return name
	}
	return alias
}

// slot is an element of /slots. No version of the server sends all fields.
type slot struct {
	ID         int             `json:"id"`
	Task       *int64          `json:"id_task"`
	Context    int             `json:"n_ctx"`
	Processing bool            `json:"is_processing"`
	State      int             `json:"state"` // 1 is processing, in versions without is_processing
	Past       int64           `json:"n_past"`
	Held       int64           `json:"n_prompt_tokens"`
	Read       int64           `json:"n_prompt_tokens_processed"`
	Cached     int64           `json:"n_prompt_tokens_cache"`
	Decoded    int64           `json:"n_decoded"`
	Next       json.RawMessage `json:"next_token"` // has the count of written tokens: an object, or a list with one object
}

// task returns the number of the slot's request, or -1 before the first one.
func (s *slot) task() int64 {
	if s.Task == nil {
		return -1
	}
	return *s.Task
}

// written returns how many tokens the slot's request has written.
func (s *slot) written() int64 {
	type counts struct {
		Decoded int64 `json:"n_decoded"`
	}
	var list []counts
	var one counts
	switch {
	case json.Unmarshal(s.Next, &list) == nil && len(list) > 0:
		return list[0].Decoded
	case json.Unmarshal(s.Next, &one) == nil:
		return max(one.Decoded, s.Decoded)
	}
	return s.Decoded
}

func (c *Client) slots(ctx context.Context) ([]slot, error) {
	text, err := c.get(ctx, "/slots", maxSlots)
	if err != nil {
		return nil, err
	}
	var slots []slot
	if err := json.Unmarshal(text, &slots); err != nil {
		return nil, fmt.Errorf("cannot read the slots of %s: %w", c.root, err)
	}
	return slots, nil
}

// Slots returns the current state of the server's slots. The error is ErrNotOffered if the server does not report it.
func (c *Client) Slots(ctx context.Context) ([]agents.ServerSlot, error) {
	slots, err := c.slots(ctx)
	if err != nil {
		return nil, err
	}
	at := make([]agents.ServerSlot, len(slots))
	for i := range slots {
		s := &slots[i]
		at[i] = agents.ServerSlot{
			ID: s.ID, Task: s.task(), Busy: s.Processing || s.State == 1, Context: s.Context, Held: max(s.Held, s.Past),
			Read: s.Read, Cached: s.Cached, Written: s.written(),
		}
	}
	return agents.Server{At: at}.Bounded().At, nil
}

// Progress describes how far the server's requests have got: the text changes when a request advances. It is empty when
// no request is running, the server is not llama.cpp's, or /slots is switched off.
func (c *Client) Progress(ctx context.Context) string {
	slots, err := c.slots(ctx)
	if err != nil {
		return ""
	}
	var mark strings.Builder
	for i := range slots {
		s := &slots[i]
		if s.Processing || s.State == 1 {
			fmt.Fprintf(&mark, "%d:%d %d %d %d %s\n", s.ID, s.task(), s.Decoded, s.Past, s.Read, s.Next)
		}
	}
	return mark.String()
}

// work reads the counters of /metrics, in Prometheus' text format.
func (c *Client) work(ctx context.Context) (*agents.ServerWork, error) {
	text, err := c.get(ctx, "/metrics", maxAnswer)
	if err != nil {
		return nil, err
	}
	value := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(number, 64); ok && err == nil && strings.HasPrefix(name, "llamacpp:") {
			value[strings.TrimPrefix(name, "llamacpp:")] = f
		}
	}
	if _, ok := value["prompt_tokens_total"]; !ok {
		return nil, fmt.Errorf("cannot read the counters of %s: no llamacpp:prompt_tokens_total", c.root)
	}
	return &agents.ServerWork{
		Read: whole(value["prompt_tokens_total"]), ReadSeconds: value["prompt_seconds_total"],
		Written: whole(value["tokens_predicted_total"]), WrittenSeconds: value["tokens_predicted_seconds_total"],
		Busy: int(whole(value["requests_processing"])), Deferred: int(whole(value["requests_deferred"])),
	}, nil
}

// whole converts a counter to an integer in the range of int64.
func whole(f float64) int64 {
	if !(f >= 0) { // also true of NaN
		return 0
	}
	return int64(min(f, agents.MaxServerTokens))
}
