package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// history answers questions about the past, the present and the likely future, and finds logs.
type history struct {
	*core
	scanner  *scanner
	sessions *sessionRunner
	stateDir string
	simulate func(ctx context.Context, q Foresight) (*control.Forecast, error) // nil refuses forecasts
	outlook  atomic.Pointer[control.Forecast]                                  // the newest forecast of the queue
}

// Foresight is a request for a forecast.
type Foresight struct {
	Refs     []forge.Ref
	Items    int             // if not 0: also the running items, and this many from the front of the queue
	Time     time.Duration   // bounds the simulation runs
	Past     []ledger.Past   // at most ledger.PastLimit
	Timeline ledger.Timeline // of the last foresightAge
	// View runs f on a current snapshot, whose maps f must not keep.
	View func(f func(threads.Snapshot))
}

// show answers GET /v1/show with the life of an issue or pull request. It asks the forge, because a scan keeps nothing
// of items that closed long ago. While the forge does not answer, it shows what the scans and the journal know.
func (h *history) show(_ context.Context, query url.Values) (*control.ItemDocument, error) {
	if err := h.noConfig(); err != nil {
		return nil, err
	}
	item, err := h.item("", query.Get("ref"))
	if err != nil {
		return nil, err
	}
	return h.life("show", item)
}

// look reads an item from the forge, in the time of a reading request; down reports that the forge does not answer, and
// look is then what the scans know.
func (h *history) look(item forge.Ref) (look forge.ItemFacts, down bool, err error) {
	err = h.call(h.base, showTime, func(ctx context.Context, f Forge) (err error) {
		look, err = f.FetchItem(ctx, item, time.Now())
		return err
	})
	if down = errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded); down {
		look = h.state.shown(item)
	}
	return look, down, err
}

// life collects everything that forge and journal know of an item; verb is the command's name in a refusal.
func (h *history) life(verb string, item forge.Ref) (*control.ItemDocument, error) {
	look, down, err := h.look(item)
	d := control.ItemOf(item, look)
	if err != nil && (!down || d == nil) {
		return nil, notDone(verb, item, err)
	}
	if d == nil {
		return nil, notDone(verb, item, forge.ErrNotFound)
	}
	if down {
		d.NotRead = text(notDone(verb, item, err))
	}
	chain := item
	if look.Pull != nil {
		chain = threads.ChainOf(look.Pull)
	}
	family := []forge.Ref{item}
	for i := range look.Pulls {
		family = append(family, look.Pulls[i].Ref)
	}
	of := func(ref forge.Ref) bool { return slices.Contains(family, ref) }
	d.Sessions = h.past(func(p *ledger.Past) bool { return of(forge.Ref(p.Ref)) || forge.Ref(p.Chain) == chain })
	running := h.state.showAll()
	h.sessions.addActivity(running)
	for _, x := range running {
		if of(forge.Ref{Repo: x.Repo, Number: x.Number}) {
			x.Told = h.state.toldTo(x.RunID)
			d.Running = append(d.Running, x)
		}
	}
	h.view(func(snap threads.Snapshot) { d.DependsOn, d.Blocks = threads.Around(snap, item) })
	waited, err := answers.Waits(h.stateDir, item, time.Now())
	if err != nil {
		h.log.Info(fmt.Sprintf("cannot read what %s waited for: %s", item, text(err)))
	}
	for _, w := range waited {
		if seconds := int64(w.Took.Seconds()); seconds > 0 {
			d.Waited = append(d.Waited, control.WaitDocument{For: w.For, Code: w.Code, Seconds: seconds})
		}
	}
	d.Verdict = ended(d)
	if d.State == control.StateOpen {
		if ex, err := h.explain(item); err == nil {
			d.Verdict, d.Mend = ex.Verdict, ex.Mend
		}
	}
	if down && !strings.Contains(d.Verdict, notReadWords) {
		d.Verdict += notRead(h.state.lastRead(item.Repo))
	}
	return d, nil
}

// lastRead returns when a scan read a repository last.
func (st *state) lastRead(repo string) time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	r, _ := st.facts.Repo(repo)
	if r.AsOf.IsZero() {
		return r.LastRead
	}
	return r.AsOf
}

// shown returns an item and its pull requests as the newest scan that showed them, without comments; empty if no scan
// has.
func (st *state) shown(item forge.Ref) (look forge.ItemFacts) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if is := st.facts.Issue(item); is != nil {
		copied := *is
		look.Issue = &copied
	}
	for _, p := range st.facts.Pulls {
		switch item {
		case p.Ref:
			look.Pull, look.Issue = &p, nil
		case threads.ChainOf(&p):
			look.Pulls = append(look.Pulls, p)
		}
	}
	return look
}

// ended returns in one line how an item ended and by whom; empty while it is open.
func ended(d *control.ItemDocument) string {
	var writers, approvers []string
	add := func(names []string, name string) []string {
		if name == "" || slices.Contains(names, name) {
			return names
		}
		return append(names, name)
	}
	for _, p := range d.Pulls {
		if p.State == control.StateMerged {
			writers = add(writers, p.Author)
			for _, r := range p.Reviews {
				if r.Verdict == string(ledger.Approved) {
					approvers = add(approvers, r.Author)
				}
			}
		}
	}
	if d.State == control.StateOpen {
		return ""
	}
	words := d.State
	if !d.EndedAt.IsZero() {
		words += " " + d.EndedAt.UTC().Format(time.RFC3339)
	}
	if len(writers) > 0 {
		words += ": " + strings.Join(writers, ", ") + " wrote it"
	}
	if len(approvers) > 0 {
		words += ", " + strings.Join(approvers, ", ") + " approved it"
	}
	return words
}

// past returns the sessions that ended and that fit, oldest first.
func (h *history) past(fits func(*ledger.Past) bool) []control.PastDocument {
	list := []control.PastDocument{}
	for _, p := range h.state.past() {
		if fits(&p) {
			list = append(list, PastOf(h.stateDir, p))
		}
	}
	return list
}

// PastOf returns the document of a session that ended. Its log may have been deleted since.
func PastOf(stateDir string, p ledger.Past) control.PastDocument {
	d := control.PastDocument{Past: p}
	if p.Run == "" {
		return d
	}
	if log := filepath.Join(stateDir, ledger.LogPath(p.Agent, p.Run)); exists(log) {
		d.Log = log
	}
	return d
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// history answers GET /v1/history: the ended sessions; see control.HistoryQuery.
func (h *history) history(_ context.Context, query url.Values) (*control.HistoryDocument, error) {
	of, err := control.ReadHistoryQuery(query)
	if err != nil {
		return nil, control.Invalid("%s", err)
	}
	d := HistoryOf(h.stateDir, h.state.books(), of)
	if config := h.state.config(); len(d.Sessions) == 0 && config != nil {
		_, err := config.Repo(of.Repo)
		if of.Repo != "" && err != nil && h.never(control.HistoryQuery{Repo: of.Repo}) {
			return nil, control.NotFound("cannot list the sessions: %s", err)
		}
		if of.Agent != "" && config.Agent(of.Agent) == nil && h.never(control.HistoryQuery{Agent: of.Agent}) {
			return nil, control.NotFound("cannot list the sessions of %q: there is no such agent%s", of.Agent,
				config.SuggestName(of.Agent))
		}
	}
	if of.Agent+of.Repo+string(of.Outcome) == "" {
		d.Timeline = h.state.timeline(of.Since, time.Now())
	}
	return d, nil
}

// never reports whether no session ever fitted a query: an agent or repository that was removed has a past.
func (h *history) never(all control.HistoryQuery) bool { return len(h.past(all.Fits)) == 0 }

// HistoryOf lists the sessions of a state directory that a query selects.
func HistoryOf(stateDir string, b *ledger.Books, of control.HistoryQuery) *control.HistoryDocument {
	d := &control.HistoryDocument{Sessions: []control.PastDocument{}}
	for _, p := range b.Past {
		if of.Fits(&p) {
			d.Sessions = append(d.Sessions, PastOf(stateDir, p))
		}
	}
	if _, summed, _ := b.Counted(of.Since); summed > 0 && len(b.Past) > 0 {
		d.Kept, d.From, d.Ever = len(b.Past), b.Past[0].End.UTC(), max(b.Ever, int64(len(b.Past)+summed))
	}
	return d
}

// report answers GET /v1/report: the cost of sessions, and their results.
func (h *history) report(_ context.Context, query url.Values) (*control.RecordDocument, error) {
	q, err := control.ReadRecordQuery(query, time.Now())
	if err != nil {
		return nil, control.Invalid("%s", err)
	}
	return control.RecordOf(h.state.books(), q), nil
}
