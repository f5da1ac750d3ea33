package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/receipts"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/audit"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Every session gets a receipt (package receipts), except one whose claim failed. The receipt is written before the
// journal has the session's end, which contains the receipt's hash. The pull requests of the session's chain show the
// hashes in one comment. It is written before the claim is released, while decisions exclude the item, or later, when
// the forge answers again.

// owedRest is the time between two tries to show receipts.
const owedRest = time.Minute

// pullOf returns the pull request that a session worked on or opened; zero for none.
func (x *session) pullOf(look *forge.ItemFacts) (pull forge.Ref) {
	if x.Item.Kind != agents.KindIssue {
		if look != nil && look.Pull == nil {
			return pull
		}
		return x.Item.Ref
	}
	if look != nil {
		for i := range look.Pulls {
			if p := &look.Pulls[i]; !p.Closed && p.Author == x.agent.Login {
				pull = p.Ref
			}
		}
	}
	return pull
}

// receipting writes the receipts of sessions, and shows their hashes in pull requests.
type receipting struct {
	*core
	stateDir string
	store    *receipts.Store // nil if it cannot be opened
	newest   int64           // number of the newest receipt in the journal when this supervisor started

	mu     sync.Mutex      // guards the field below
	unkept []unkeptReceipt // oldest first, at most mostUnkept
}

// openReceipts opens the store of receipts, and writes those of lost sessions. If the store cannot be opened,
// everything else still works.
func (rs *receipting) openReceipts(
	past *ledger.State, origin string, now time.Time, goesOn func(*ledger.Open) bool,
) map[string]*ledger.Receipt {
	store, err := receipts.Open(rs.stateDir, origin, past.Receipts())
	if err != nil {
		rs.log.Error(text(err) + ": sessions get no receipts until the next start")
		return nil
	}
	rs.store, rs.newest = store, past.Receipt.N
	lost := make(map[string]*ledger.Receipt)
	for _, run := range slices.Sorted(maps.Keys(past.Open)) {
		o := past.Open[run]
		if goesOn(&o) {
			continue
		}
		head, written := store.Of(run, rs.newest)
		if !written {
			head, err = store.Add(lostReceipt(&o, now))
		}
		if err != nil {
			rs.log.Error(text(err))
			continue
		}
		lost[run] = &ledger.Receipt{N: head.N, Hash: head.Hash}
	}
	return lost
}

// lostReceipt returns the receipt of a session whose end the supervisor did not see.
func lostReceipt(o *ledger.Open, now time.Time) *audit.Receipt {
	unseen := agents.NotSeen(endedUnder)
	r := &audit.Receipt{
		Run: o.Run, Agent: o.Agent, Role: o.Role, Thread: o.Thread, Model: o.Model, Kind: o.Item.Kind,
		Item: forge.Ref(o.Item.Ref).String(), Chain: forge.Ref(o.Chain).String(), Attempt: o.Attempt, Executor: o.Executor,
		Place: o.Place, StartedAt: o.At, EndedAt: now, Outcome: agents.Lost, Reason: endedUnder,
		Processes: unseen, Hosts: unseen, Files: unseen,
	}
	if o.Used != (agents.Usage{}) {
		r.Usage = &o.Used
	}
	return r
}

// receipt writes the receipt of an ended session; nil if the session gets none.
func (rs *receipting) receipt(x *session, end *ledger.End, at time.Time) *ledger.Receipt {
	if rs.store == nil || end.Result == agents.ClaimFailed {
		return nil
	}
	var head audit.Head
	var err error
	written := false
	if x.adopted { // the last supervisor may have been killed after it wrote the receipt
		head, written = rs.store.Of(x.RunID, rs.newest)
	}
	r := &ledger.Receipt{}
	if x.remains != nil && x.remains.pull.Number > 0 {
		r.Pull, r.Chain = ledger.Ref(x.remains.pull), ledger.Ref(x.Item.Chain)
	}
	if !written {
		full := rs.state.receipt(x, end, at)
		if head, err = rs.store.Add(full); err != nil {
			rs.of(x.RunID).Info(x.tag + " " + text(err) + ": it stays in memory until there is room")
			rs.keep(unkeptReceipt{full, r.Pull, r.Chain})
			return nil
		}
	}
	r.N, r.Hash = head.N, head.Hash
	return r
}

// receipt returns the receipt of a session at its end. An executor that observed nothing also measured nothing.
func (st *state) receipt(x *session, end *ledger.End, at time.Time) *audit.Receipt {
	st.mu.Lock()
	defer st.mu.Unlock()
	unseen := agents.NotSeen("its executor does not report it")
	if end.Result == agents.Lost {
		unseen = agents.NotSeen(end.Reason)
	}
	r := &audit.Receipt{
		Run: x.RunID, Agent: x.Agent, Role: x.Role, Thread: x.Thread, Model: x.agent.Model, Kind: x.Item.Kind,
		Item: x.Item.Ref.String(), Chain: x.Item.Chain.String(), Attempt: x.Attempt, Executor: x.thread.Executor,
		Place: x.place, Sandbox: x.sandbox, StartedAt: x.reserved, EndedAt: at, Outcome: end.Result, Reason: end.Reason,
		Verdict: string(end.Verdict), Steps: end.Steps, Verified: end.Verified, Refused: end.Refused,
		Told:      st.toldToLocked(x.RunID),
		Processes: unseen, Hosts: unseen, Files: unseen,
	}
	if used := x.Used; end.Usage != nil || used != (agents.Usage{}) {
		if end.Usage != nil {
			used = used.Max(*end.Usage)
		}
		r.Usage = &used
	}
	if x.remains == nil { // an internal error
		return r
	}
	if x.remains.ran || end.Result != agents.Lost {
		r.Ran = new(x.remains.ran)
	}
	if out := &x.remains.Outcome; out.Digest != "" {
		r.Result = new(out.Digest)
	}
	if out := &x.remains.Outcome; out.Seen != nil {
		r.Exit, r.CPUSeconds, r.PeakMemory = new(strconv.Itoa(out.ExitCode)), new(out.CPU.Seconds()), new(out.MaxRSS)
		if out.Signal != "" {
			r.Exit = new(out.Signal)
		}
		r.Processes, r.Hosts, r.Files = out.Seen.Programs, out.Seen.Hosts, out.Seen.Files
	}
	return r
}

// showing is a pull request on which receipts are about to be shown. Decisions exclude it.
type showing struct {
	write *itemWrite
	pull  forge.Ref
	ledger.Owed
}

// beginShowing begins the write to the pull request that must show a receipt; nil if there is none.
func (rs *receipting) beginShowing(r *ledger.Receipt) *showing {
	if r == nil || r.Pull.Number == 0 || rs.until.Err() != nil {
		return nil
	}
	pull := forge.Ref(r.Pull)
	return &showing{rs.state.beginWrite(pull), pull, ledger.Owed{N: r.N, Chain: forge.Ref(r.Chain)}}
}

// showNow writes a pull request's comment with receipts. If the forge does not answer, the comment stays owed. The
// caller must kick the threads afterwards.
func (rs *receipting) showNow(w *showing) {
	if w == nil {
		return
	}
	defer w.write.end()
	err := rs.keepComment(w.pull, receiptsComment(rs.Instance(), rs.state.receipted(w.pull, w.Chain)))
	if isPermanent(err) {
		rs.log.Info(fmt.Sprintf("[%s] cannot show receipts: %s", wordsOf(rs.state.config(), w.pull, ""), text(err)))
		err = nil
	}
	if err == nil {
		shown := &ledger.Receipt{N: w.N, Pull: ledger.Ref(w.pull), Shown: true}
		rs.state.record(ledger.Record{At: time.Now(), Receipt: shown})
	}
}

// keepReceipts retries owed comments with receipts, until ctx is done.
func (rs *receipting) keepReceipts(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(owedRest):
		}
		rs.safely("the receipts in memory", rs.writeUnkept)
		for _, w := range rs.state.owed() {
			if ctx.Err() != nil {
				w.write.end()
				continue
			}
			rs.safely("the receipts in "+w.pull.String(), func() { rs.showNow(w) })
			rs.kicks.all(time.Now())
		}
	}
}

// owed begins the write to each pull request with an owed comment that nothing else writes to.
func (st *state) owed() (list []*showing) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, pull := range slices.SortedFunc(maps.Keys(st.ledger.Owed), forge.Ref.Compare) {
		if st.busy[pull] == 0 {
			list = append(list, &showing{st.beginWriteLocked(st.relatedLocked(pull)), pull, st.ledger.Owed[pull]})
		}
	}
	return list
}

// receipted returns the sessions on a pull request or its chain that have a receipt, oldest first.
func (st *state) receipted(pull, chain forge.Ref) (list []ledger.Past) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, p := range st.ledger.Past {
		if p.Receipt != "" && (forge.Ref(p.Ref) == pull || forge.Ref(p.Chain) == chain) {
			list = append(list, p)
		}
	}
	return list
}

// pruneReceipts deletes the receipts that are older than the logs.
func (rs *receipting) pruneReceipts(config *threads.Config) {
	if rs.store == nil {
		return
	}
	note := func(p audit.Pruned) error {
		return rs.state.append(ledger.Record{At: time.Now(), Receipt: &ledger.Receipt{
			N: p.N, Hash: p.Hash, Pruned: true, Lost: p.Lost,
		}})
	}
	if _, err := rs.store.Prune(time.Now().Add(-config.Factory.Keep), receipts.Most, note); err != nil {
		rs.log.Error(text(err))
	}
}

// receiptsComment returns the comment with the hashes of receipts. All words in it are ours or names of the
// configuration. Its key contains the instance, because the hosts of a fleet may share an account.
func receiptsComment(instance string, list []ledger.Past) comment {
	var b strings.Builder
	b.WriteString("Sessions on this, each with the SHA-256 of its receipt. `disinto audit verify --forge` compares " +
		"them with the receipts on the supervisor's host.\n\n| session | agent | work | outcome | SHA-256 of the " +
		"receipt |\n|---|---|---|---|---|\n")
	if over := len(list) - audit.MostShown; over > 0 {
		fmt.Fprintf(&b, "| %d older ones | | | | |\n", over)
		list = list[over:]
	}
	for i := range list {
		p := &list[i]
		it := threads.Item{Kind: p.Kind, Role: p.Role}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", p.Run, p.Agent, task(&it), p.Outcome, p.Receipt)
	}
	return comment{forge.ReceiptsKey + instance, strings.TrimSuffix(b.String(), "\n")}
}
