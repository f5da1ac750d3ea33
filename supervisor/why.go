package supervisor

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// why explains one item, an agent or a thread, at present or at a time in the past.
func (h *history) why(ctx context.Context, query url.Values) (ex threads.Explanation, err error) {
	said := query.Get("ref")
	if at := query.Get("at"); at != "" {
		return h.whyAt(said, at)
	}
	if err := h.noConfig(); err != nil {
		return ex, err
	}
	c := h.state.config()
	if c.Agent(said) != nil || c.Thread(said) != nil {
		h.view(func(snap threads.Snapshot) { ex, err = threads.ExplainName(snap, said) })
		return ex, err
	}
	if _, err := forge.ParseRef(said, "owner/name"); err != nil {
		return ex, control.NotFound(
			"cannot explain %q: it is neither an agent, nor a thread, nor an issue such as 12 or owner/name#12%s", said,
			c.SuggestName(said))
	}
	item, err := h.item("", said)
	if err != nil {
		return ex, err
	}
	return h.whyItem(ctx, said, item)
}

// whyItem explains an item, which the person called said. If it is closed, the forge and the journal say who ended it.
// One that was filed after the last scan is read now.
func (h *history) whyItem(ctx context.Context, said string, item forge.Ref) (threads.Explanation, error) {
	ex, err := h.explain(item)
	if err == nil && ex.Code != threads.Closed {
		return ex, nil
	}
	d, failed := h.life("explain", item)
	if err != nil && failed == nil && d.State == control.StateOpen {
		h.scanner.awaitShown(ctx)
		ex, err = h.explain(item)
	}
	switch {
	case failed == nil && d.State != control.StateOpen:
		ex = threads.Explanation{
			Repo: item.Repo, Number: item.Number, Kind: agents.Kind(d.Kind), Title: d.Title, Verdict: d.Verdict,
			Code: threads.Closed, Steps: []threads.Step{}, Candidates: []threads.CandidateSteps{},
		}
		if n := len(d.Sessions); n > 0 {
			ex.Verdict += fmt.Sprintf("; sessions: %d (disinto show %s)", n, typed(said, item))
		}
		return ex, nil
	case err != nil && failed != nil:
		if ex, ok := h.state.reminder(item); ok {
			return ex, nil
		}
		return ex, failed
	case err != nil:
		return ex, control.NotFound("%s", err)
	}
	return ex, nil
}

// typed returns an item for a command in an answer, as the person wrote it: a number alone would be refused where the
// factory has several repositories. A # begins a comment in a shell, so #12 becomes owner/name#12.
func typed(said string, item forge.Ref) string {
	if _, err := strconv.ParseInt(said, 10, 64); err == nil {
		return said
	}
	return item.String()
}
