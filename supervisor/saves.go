package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// kvTime bounds the save of a conversation, and its restore. Only the session waits for it, not a tick or a claim.
const kvTime = 10 * time.Second

// lastSave bounds each save while the supervisor stops, or a service restarts.
const lastSave = 1500 * time.Millisecond

// saves has the failures of saves.
type saves struct {
	mu  sync.Mutex        // guards the fields below
	why map[string]string // why the newest save of a thread failed
	end time.Time         // the deadline of all saves; zero until the supervisor stops
}

// set records the result of a thread's newest save, and reports whether a failure is news.
func (v *saves) set(thread string, err error) (isNew bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		delete(v.why, thread)
		return false
	}
	if v.why == nil {
		v.why = make(map[string]string)
	}
	isNew = v.why[thread] == ""
	v.why[thread] = fmt.Sprintf("%s: the newest conversation is not saved: %s", thread, text(err))
	return isNew
}

// lines returns the problems as text.
func (v *saves) lines() (list []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, thread := range slices.Sorted(maps.Keys(v.why)) {
		list = append(list, v.why[thread])
	}
	return list
}

// restoreConversation restores the conversation of a session that is about to start into an idle slot of its server. If
// that fails, the session starts cold.
func (inf *inference) restoreConversation(x *session) {
	url := x.server()
	if url == "" {
		return
	}
	inf.state.share(x)
	if inf.saver == nil || x.thread.Saved.Limit == 0 || !x.Item.Kind.Writes() || inf.state.forgets(x) != nil {
		return
	}
	v := &saving{
		Conversation: saved.Conversation{Agent: x.Agent, Model: x.agent.Model, Chain: x.Item.Chain},
		server:       inf.saver(url), folder: saved.Folder{Path: x.thread.Saved.Folder, Limit: x.thread.Saved.Limit},
	}
	ctx, cancel := context.WithTimeout(x.ctx, kvTime)
	defer cancel()
	slots, err := v.server.Slots(ctx)
	if err != nil || v.File() == "" {
		return // the slot of its conversation could not be found at the end
	}
	v.since, v.told = saved.Newest(slots), inf.state.lastTalk(x).Tokens
	defer inf.state.keeps(x, v)
	if !v.folder.Has(v.Conversation) {
		return
	}
	slot, ok := inf.state.place(x, slots)
	if !ok {
		return
	}
	moved, err := v.server.Restore(ctx, slot, v.File())
	if err != nil {
		inf.of(x.RunID).Info(fmt.Sprintf("%s starts cold: %s", x.tag, text(err)))
		return
	}
	v.restored = moved.Tokens
	inf.of(x.RunID).Debug(fmt.Sprintf("%s conversation of %d tokens restored", x.tag, moved.Tokens))
}

// save saves the conversation of a session whose program has ended, while the session still has its slot.
func (inf *inference) save(x *session, out agents.Outcome, ran bool) {
	v := x.saving
	if v == nil || !ran || !x.goesOn(out.Result) {
		return
	}
	tokens, known, err := inf.saveTo(inf.until, kvTime, x, x.RunID)
	if err != nil && inf.until.Err() != nil {
		tokens, known, err = inf.saveTo(inf.base, inf.saves.left(), x, x.RunID)
	}
	if err == nil && !known {
		inf.of(x.RunID).Debug(x.tag + " conversation not saved: the slot that has it is unknown")
		return
	}
	if err == nil {
		v.saved = tokens
	}
	if inf.saves.set(x.Thread, err) {
		inf.of(x.RunID).Info(fmt.Sprintf("%s conversation not saved: %s", x.tag, text(err)))
	}
	inf.touchStatus()
}

// goesOn reports whether the chain may continue the conversation of a session with this result. It may after a session
// that this supervisor's stop cut, because the next supervisor starts that session again.
func (x *session) goesOn(r agents.Result) bool {
	switch r {
	case agents.Cancelled:
		return errors.Is(context.Cause(x.ctx), errShutdown)
	case agents.Lost, agents.BackendDown, agents.TokenRejected, agents.Unanswered, agents.Killed:
		return false
	}
	return true
}

// saveTo saves a session's conversation, at first under the name of a run.
func (inf *inference) saveTo(
	ctx context.Context, limit time.Duration, x *session, run string,
) (tokens int64, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v := x.saving
	slots, err := v.server.Slots(ctx)
	if err != nil {
		return 0, false, err
	}
	slot, known := inf.state.holding(x, v.since, slots)
	if !known {
		return 0, false, nil
	}
	moved, err := v.server.Save(ctx, slot.ID, saved.Temporary(run))
	switch {
	case err != nil:
	case moved.Tokens != slot.Held && !slot.Busy:
		err = fmt.Errorf("slot %d had %d tokens, and %d were saved", slot.ID, slot.Held, moved.Tokens)
	case moved.Bytes == 0:
		err = errors.New("the server wrote nothing: its disk may be full")
	default:
		err = v.folder.Adopt(v.Conversation, run)
	}
	if err != nil {
		v.folder.Discard(run)
	}
	return moved.Tokens, true, err
}

// addConversation adds the facts about a session's conversation to its end. Whether the conversation was restored is
// known only if the program reports its cached tokens and resumed the conversation.
func (inf *inference) addConversation(x *session, end *ledger.End) {
	end.Talk, _ = inf.state.talk(x)
	v := x.saving
	if v == nil {
		return
	}
	end.Saved = v.saved
	restored := min(v.restored, v.told) // a cut answer is in the file, but in no later prompt
	found, told := inf.state.first(x)
	if r := end.Resumed; r != nil {
		found, told = r.Cached, r.Changed == ""
	}
	if told && restored > 0 {
		end.Restored, end.Found = restored, min(found, restored)
	}
}

// warnForgotten logs once that a model's conversations are not saved any more.
func (inf *inference) warnForgotten(x *session, end *ledger.End) {
	if f := inf.state.forgets(x); f != nil && end.Restored > 0 {
		inf.log.Warn(forgotten(x.Thread, f))
	}
}

func forgotten(thread string, f *threads.Forgotten) string {
	return fmt.Sprintf("%s: conversations of %s are not saved any more: of %d tokens that came from a file the next "+
		"request found %d; its state is not kept in files, or its CLI begins each session differently",
		thread, cmp.Or(f.Model, "its model"), f.Restored, f.Found)
}

// deleteSaved deletes the saved conversations of chains that are over.
func (inf *inference) deleteSaved(config *threads.Config, over func(agent string, chain forge.Ref) bool) {
	for i := range config.Threads {
		t := &config.Threads[i]
		if t.Saved.Limit == 0 {
			continue
		}
		folder := saved.Folder{Path: t.Saved.Folder, Limit: t.Saved.Limit}
		files, err := folder.List()
		var gone []saved.Conversation
		for _, f := range files {
			if over(f.Agent, f.Chain) {
				gone = append(gone, f.Conversation)
			}
		}
		if err = errors.Join(err, folder.Remove(gone...)); err != nil {
			inf.log.Debug(fmt.Sprintf("%s: cannot delete saved conversations: %s", t.Name, text(err)))
		}
	}
}

// server returns the address of a session's inference server; empty if the server is not the operator's.
func (x *session) server() string {
	if !x.thread.Backend.Server() {
		return ""
	}
	return cmp.Or(x.agent.BaseURL, x.thread.BaseURL)
}

// share records that a session starts on its server, beside the sessions already there.
func (st *state) share(x *session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	x.served = true
	for _, o := range st.sessions {
		if o != x && o.served && o.server() == x.server() {
			x.shares, o.shares = true, true
		}
	}
}

// place returns the slot into which a session's conversation is restored, and keeps other restores out of it until the
// session has used it. On a server that others use, the session is one among several.
func (st *state) place(x *session, slots []agents.ServerSlot) (slot int, ok bool) {
	tokens := st.lastTalk(x).Saved
	st.mu.Lock()
	defer st.mu.Unlock()
	var taken []int
	for _, o := range st.sessions {
		if o != x && o.placed && o.first == (agents.Usage{}) && o.server() == x.server() {
			taken = append(taken, o.slot)
		}
	}
	if slot, ok = saved.Place(slots, tokens, taken); ok {
		x.placed, x.slot = true, slot
	}
	return slot, ok
}

// lastTalk returns the conversation that a session continues, as the journal has it.
func (st *state) lastTalk(x *session) threads.Talk {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Thread(x.Thread).Talk(x.Agent, x.Item.Chain)
}

// keeps records that a session's conversation is saved at its end.
func (st *state) keeps(x *session, v *saving) {
	st.mu.Lock()
	defer st.mu.Unlock()
	x.saving = v
}

// talk returns the size of a session's conversation in tokens, 0 if unknown, and whether no other of our sessions has
// used its server meanwhile.
func (st *state) talk(x *session) (tokens int64, alone bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return x.talk, x.served && !x.shares
}

// first returns the cached tokens of a session's first answer. told is false if its program never reported any; 0 then
// means nothing.
func (st *state) first(x *session) (cached int64, told bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return x.first.CachedTokens, x.Used.CachedTokens > 0
}

// forgets returns why the conversations of a session's model are not saved; nil if they may be.
func (st *state) forgets(x *session) *threads.Forgotten {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Thread(x.Thread).Forgets(x.agent.Model)
}

// forgotten returns a line for each model whose conversations are not saved, with the reason.
func (st *state) forgotten() (lines []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil {
		return nil
	}
	for i := range st.cfg.Threads {
		t := &st.cfg.Threads[i]
		if t.Saved.Limit == 0 {
			continue
		}
		known := st.ledger.Thread(t.Name).Forgotten
		for j := range known {
			lines = append(lines, forgotten(t.Name, &known[j]))
		}
	}
	return lines
}

// answered takes a session's usage since its last report. A program reports after each answer of its model, so this is
// one request, which contains the whole conversation.
func (x *session) answered(more agents.Usage) {
	size := more.InputTokens + more.CachedTokens + more.OutputTokens
	if size == 0 {
		return
	}
	if x.first == (agents.Usage{}) {
		x.first = more
	}
	x.talk = size
}

// endAt sets the deadline of saves while the supervisor stops: the releases need the time after the grace.
func (v *saves) endAt(end time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.end = end
}

// left returns the time for a save while the supervisor stops.
func (v *saves) left() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.end.IsZero() { // the shutdown has not set it yet
		return lastSave
	}
	return min(lastSave, time.Until(v.end))
}

// holding returns the slot with a session's conversation.
func (st *state) holding(x *session, since int64, slots []agents.ServerSlot) (slot agents.ServerSlot, known bool) {
	size, alone := st.talk(x)
	st.mu.Lock()
	defer st.mu.Unlock()
	if x.holds != nil {
		if slot, known = saved.Unchanged(slots, *x.holds); known {
			return slot, true
		}
	}
	return saved.Find(slots, since, size, alone)
}
