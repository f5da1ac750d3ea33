//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxSlots bounds llama-server's answer in bytes: older versions repeat every prompt in it.
const maxSlots = 32 << 20

// llamaSlot has the fields of llama-server's /slots that tell how far a request is. Each version has some of them.
type llamaSlot struct {
	ID         int             `json:"id"`
	Task       int64           `json:"id_task"`
	Processing bool            `json:"is_processing"`
	State      int             `json:"state"` // 1 is processing, before there was is_processing
	Decoded    int64           `json:"n_decoded"`
	Past       int64           `json:"n_past"`
	Prompt     int64           `json:"n_prompt_tokens_processed"`
	Next       json.RawMessage `json:"next_token"` // counts what it wrote
}

// slotsProgress says how far a llama-server's requests are: the text changes when one gets further, and is empty when
// none is under way, the server is none, or /slots is switched off.
func slotsProgress(ctx context.Context, baseURL string) string {
	root := strings.TrimSuffix(strings.TrimSuffix(baseURL, "/"), "/v1")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/slots", nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxSlots))
	var slots []llamaSlot
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(text, &slots) != nil {
		return ""
	}
	var mark strings.Builder
	for _, s := range slots {
		if s.Processing || s.State == 1 {
			fmt.Fprintf(&mark, "%d:%d %d %d %d %s\n", s.ID, s.Task, s.Decoded, s.Past, s.Prompt, s.Next)
		}
	}
	return mark.String()
}
