package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/threads/audit"
	"codeberg.org/johba/disinto/threads/ledger"
)

// mostUnkept bounds the receipts that wait in memory for room on the disk: 1,000 of 3 kB.
const mostUnkept = 1000

// unkeptReceipt is a receipt that the disk had no room for, and the pull request that shows it; zero for none.
type unkeptReceipt struct {
	*audit.Receipt
	pull, chain ledger.Ref
}

// owing counts the receipts that wait in memory.
func (rs *receipting) owing() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.unkept)
}

// keep keeps a receipt in memory until it can be written.
func (rs *receipting) keep(r unkeptReceipt) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.unkept = append(rs.unkept, r); len(rs.unkept) > mostUnkept {
		rs.unkept = rs.unkept[1:]
	}
}

// take removes and returns the oldest receipt in memory.
func (rs *receipting) take() (r unkeptReceipt, ok bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.unkept) == 0 {
		return r, false
	}
	r, rs.unkept = rs.unkept[0], rs.unkept[1:]
	return r, true
}

// putBack returns a receipt that still cannot be written to its place.
func (rs *receipting) putBack(r unkeptReceipt) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.unkept = append([]unkeptReceipt{r}, rs.unkept...)
}

// writeUnkept writes the receipts that wait in memory, as far as there is room.
func (rs *receipting) writeUnkept() {
	for r, ok := rs.take(); ok; r, ok = rs.take() {
		head, err := rs.store.Add(r.Receipt)
		if err != nil {
			rs.putBack(r)
			return
		}
		rs.state.record(ledger.Record{At: time.Now(), Receipt: &ledger.Receipt{
			N: head.N, Hash: head.Hash, Run: r.Run, Pull: r.pull, Chain: r.chain,
		}})
		rs.of(r.Run).Info("wrote the receipt of " + r.Run + ", for which the disk had no room before")
	}
}
