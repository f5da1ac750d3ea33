package ledger

import (
	"cmp"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/audit"
)

// Receipt names the receipt of a session, in its End. Alone, in a compacted journal, it is the newest receipt, or one
// that a pull request does not show yet.
type Receipt struct {
	N    int64  `json:"n"`
	Hash string `json:"sha256,omitempty"`
	// Pull must show the receipt, beside those of the other sessions on the chain. Shown reports that it does.
	Pull  Ref  `json:"pull,omitzero"`
	Chain Ref  `json:"chain,omitzero"`
	Shown bool `json:"shown,omitempty"`
	// Run is the session of a receipt that was written after the session's End, because the disk was full.
	Run string `json:"run,omitempty"`
	// Pruned reports that this receipt and those before it were removed because of their age. Lost is how many of them
	// were missing or changed before that.
	Pruned bool  `json:"pruned,omitempty"`
	Lost   int64 `json:"lost,omitempty"`
}

// maxOwed bounds the pull requests that must still show receipts, in case a forge refuses for long.
const maxOwed = 500

// Owed is a pull request that does not show the receipts of its chain yet.
type Owed struct {
	N     int64 // the number of the newest one
	Chain forge.Ref
}

func (r *Receipt) valid() bool {
	return r.N > 0 && (r.Hash == "" && !r.Pruned || len(r.Hash) == 64) && r.Lost >= 0
}

func (r *Receipt) apply(s *State, _ time.Time) {
	if r.N > s.Receipt.N && r.Hash != "" {
		s.Receipt = audit.Head{N: r.N, Hash: r.Hash}
	}
	for i := 0; r.Run != "" && i < len(s.Past); i++ {
		if p := &s.Past[i]; p.Run == r.Run {
			p.Receipt, p.Pull = r.Hash, r.Pull
		}
	}
	if r.Pruned && r.N > s.Pruned.N {
		s.Pruned = audit.Pruned{Head: audit.Head{N: r.N, Hash: r.Hash}, Lost: r.Lost}
	}
	pull := forge.Ref(r.Pull)
	switch owed := s.Owed[pull]; {
	case pull.Repo == "":
	case r.Shown && owed.N <= r.N:
		delete(s.Owed, pull)
	case !r.Shown:
		s.Owed[pull] = Owed{max(r.N, owed.N), forge.Ref(r.Chain)}
	}
	if len(s.Owed) > maxOwed {
		delete(s.Owed, slices.MinFunc(slices.Collect(maps.Keys(s.Owed)), func(a, b forge.Ref) int {
			return cmp.Or(cmp.Compare(s.Owed[a].N, s.Owed[b].N), a.Compare(b))
		}))
	}
}

// compactReceipts is Compact for the newest receipt, for those that were removed, and for pull requests that do not
// show theirs.
func (s *State) compactReceipts(now time.Time) iter.Seq[Record] {
	var list []Record
	if s.Receipt.N > 0 {
		list = append(list, Record{At: now, Receipt: &Receipt{N: s.Receipt.N, Hash: s.Receipt.Hash}})
	}
	if p := s.Pruned; p.N > 0 {
		list = append(list, Record{At: now, Receipt: &Receipt{N: p.N, Hash: p.Hash, Pruned: true, Lost: p.Lost}})
	}
	for _, pull := range slices.SortedFunc(maps.Keys(s.Owed), forge.Ref.Compare) {
		o := s.Owed[pull]
		list = append(list, Record{At: now, Receipt: &Receipt{N: o.N, Pull: Ref(pull), Chain: Ref(o.Chain)}})
	}
	return slices.Values(list)
}

// Receipts returns the facts that the journal has about receipts.
func (s *State) Receipts() audit.Journal {
	j := audit.Journal{
		Newest: s.Receipt, Pruned: s.Pruned, Hashes: make(map[string]string), Open: make(map[string]bool),
		Ended: make(map[string]time.Time), Owed: make(map[forge.Ref]bool), Forgot: len(s.Past) == PastLimit,
	}
	for pull := range s.Owed {
		j.Owed[pull] = true
	}
	for run := range s.Open {
		j.Open[run] = true
	}
	for i := range s.Past {
		switch p := &s.Past[i]; {
		case p.Receipt != "":
			j.Hashes[p.Run], j.Ended[p.Run] = p.Receipt, p.End
			j.Sessions = append(j.Sessions, audit.Session{
				Run: p.Run, Item: forge.Ref(p.Ref), Chain: forge.Ref(p.Chain), Pull: forge.Ref(p.Pull),
			})
		case p.Run != "" && p.Outcome != agents.ClaimFailed:
			j.Without++
		}
	}
	return j
}

// ReadReceipts returns the facts that a journal has about receipts. It skips lines that are not valid records.
func ReadReceipts(journal io.Reader) (audit.Journal, error) {
	s := New()
	err := Read(journal, s.Apply, func(_, _ int64) {})
	return s.Receipts(), err
}
