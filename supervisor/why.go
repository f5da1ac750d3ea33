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
func (h *history) why(_ context.Context, query url.Values) (ex threads.Explanation, err error) {
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
		return ex, control.Invalid(
			"cannot explain %q: it is neither an agent, nor a thread, nor an issue such as 12 or owner/name#12%s", said,
			c.SuggestName(said))
	}
	item, err := h.item("", said)
	if err != nil {
		return ex, err
	}
	return h.whyItem(item)
}

// whyItem explains an item. If it is closed, or no scan has read it, the forge and the journal say who ended it.
func (h *history) whyItem(item forge.Ref) (threads.Explanation, error) {
	ex, err := h.explain(item)
	if err == nil && ex.Code != threads.Closed {
		return ex, nil
	}
	d, failed := h.life("explain", item)
	switch {
	case failed == nil && d.State != control.StateOpen:
		ex = threads.Explanation{
			Repo: item.Repo, Number: item.Number, Kind: agents.Kind(d.Kind), Title: d.Title, Verdict: d.Verdict,
			Code: threads.Closed, Steps: []threads.Step{}, Candidates: []threads.CandidateSteps{},
		}
		if n := len(d.Sessions); n > 0 {
			ex.Verdict += fmt.Sprintf("; sessions: %d (disinto show %s)", n, h.typed(item))
		}
		return ex, nil
	case err != nil && failed != nil:
		return ex, failed
	case err != nil:
		return ex, control.NotFound("%s", err)
	}
	return ex, nil
}

// typed returns an item as a person types it in a command: its number is enough in a factory with one repository.
func (h *history) typed(item forge.Ref) string {
	if len(h.state.config().Forge.Repos) == 1 {
		return strconv.FormatInt(item.Number, 10)
	}
	return item.String()
}
