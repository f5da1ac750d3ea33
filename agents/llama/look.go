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

// Look asks the server what it says of itself and, with work, of its slots and counters, which are left out where it
// does not tell them. That counts as a request: a server that unloads its model after a time without one never would.
// An error means that it is none of llama.cpp's, or does not answer.
func (c *Client) Look(ctx context.Context, work bool) (agents.Server, error) {
	s, err := c.props(ctx)
	if err != nil {
		return agents.Server{}, err
	}
	s.PerToken, s.Forgets = kept(s.Path)
	if s.Asleep || !work { // asleep any other question would have it load its model
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

// Describe returns what the server says of itself without its slots and counters, and nothing where it does not say.
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
		return agents.Server{}, fmt.Errorf("cannot read what %s says of itself: %w", c.root, err)
	}
	if p.Slots == 0 && p.Settings.Context == 0 {
		return agents.Server{}, fmt.Errorf("%s says nothing of its slots: it is no llama-server, or an old one", c.root)
	}
	return agents.Server{
		Model: nameOf(p.Alias), Path: p.Path, Build: p.Build, Slots: p.Slots, Context: p.Settings.Context, Asleep: p.Asleep,
	}, nil
}

// nameOf is a model's name. A server that was given none uses the path of the file, and takes any name.
func nameOf(alias string) string {
	if name, ok := strings.CutSuffix(path.Base(alias), ".gguf"); ok {
		return name
	}
	return alias
}

// slot is one of /slots. Each version has some of the fields.
type slot struct {
	ID         int             `json:"id"`
	Task       *int64          `json:"id_task"`
	Context    int             `json:"n_ctx"`
	Processing bool            `json:"is_processing"`
	State      int             `json:"state"` // 1 is processing, before there was is_processing
	Past       int64           `json:"n_past"`
	Held       int64           `json:"n_prompt_tokens"`
	Read       int64           `json:"n_prompt_tokens_processed"`
	Cached     int64           `json:"n_prompt_tokens_cache"`
	Decoded    int64           `json:"n_decoded"`
	Next       json.RawMessage `json:"next_token"` // counts what it wrote: an object in a list, or alone
}

// task is the number of the slot's request, and -1 before the first one.
func (s *slot) task() int64 {
	if s.Task == nil {
		return -1
	}
	return *s.Task
}

// written is how many tokens the slot's request wrote.
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

// Slots are the server's slots now. The error is ErrNotOffered where the server does not tell them.
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

// Progress says how far the server's requests are: the text changes when one gets further, and is empty when none is
// under way, the server is none of llama.cpp's, or /slots is switched off.
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

// whole is a counter as a number that an int64 holds.
func whole(f float64) int64 {
	if !(f >= 0) { // not a number either
		return 0
	}
	return int64(min(f, agents.MaxServerTokens))
}
