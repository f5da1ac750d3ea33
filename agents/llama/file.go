package llama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Save writes the cache of a slot to a file in the server's folder. It waits while the slot computes, so ctx should
// have a deadline. The error is ErrNotOffered if the server has no folder.
func (c *Client) Save(ctx context.Context, slot int, file string) (agents.Moved, error) {
	a, err := c.act(ctx, slot, "save", file)
	return agents.Moved{Tokens: a.Saved, Bytes: a.Wrote, Took: milliseconds(a.Timings.Save)}, err
}

// Restore fills the cache of a slot from a file. Like Save, it waits for the slot. The error is ErrRefused if the file
// is missing, belongs to another model or does not fit; the next request then computes its whole prompt.
func (c *Client) Restore(ctx context.Context, slot int, file string) (agents.Moved, error) {
	a, err := c.act(ctx, slot, "restore", file)
	return agents.Moved{Tokens: a.Restored, Bytes: a.Took, Took: milliseconds(a.Timings.Restore)}, err
}

// Saves returns nil if the server was started with a folder for files, else ErrNotOffered. It changes nothing.
func (c *Client) Saves(ctx context.Context) error {
	_, err := c.act(ctx, 0, "none", "")
	if errors.Is(err, ErrRefused) {
		return nil
	}
	return err
}

// action is the server's answer to a save or restore.
type action struct {
	Saved    int64 `json:"n_saved"`
	Wrote    int64 `json:"n_written"`
	Restored int64 `json:"n_restored"`
	Took     int64 `json:"n_read"`
	Timings  struct {
		Save    float64 `json:"save_ms"`
		Restore float64 `json:"restore_ms"`
	}
}

func (c *Client) act(ctx context.Context, slot int, what, file string) (action, error) {
	var a action
	path := "/slots/" + strconv.Itoa(slot) + "?action=" + what
	body := map[string]string{}
	if file != "" {
		body["filename"] = file
	}
	text, err := c.do(ctx, http.MethodPost, path, body, maxAnswer)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return action{}, fmt.Errorf("cannot read the answer of %s%s: %w", c.root, path, err)
	}
	a.Saved, a.Restored = min(max(a.Saved, 0), agents.MaxServerTokens), min(max(a.Restored, 0), agents.MaxServerTokens)
	a.Wrote, a.Took = max(a.Wrote, 0), max(a.Took, 0)
	return a, nil
}

// milliseconds converts a time that a server measured, of at most a day.
func milliseconds(ms float64) time.Duration {
	const most = 24 * time.Hour
	if !(ms >= 0) {
		return 0
	}
	return time.Duration(min(ms*float64(time.Millisecond), float64(most)))
}
