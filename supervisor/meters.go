package supervisor

import (
	"context"
	"errors"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Meters count events for metrics and traces. A nil function is not called, and costs nothing. Several goroutines call
// them, some while the state is locked: a meter must be quick and must not query the supervisor.
type Meters struct {
	// Claimed is called when a session has its claim, or has failed to get it.
	Claimed func(Claim)
	// Ended is called with each session whose end is in the ledger, including sessions that never got their claim.
	Ended func(x ledger.Open, end *ledger.End, at time.Time)
	// Done is called with each chore that was tried, such as a merge.
	Done func(Deed)
	// Free is called after each plan with the slots that stand free beside work until the next plan.
	Free func(at time.Time, slots []threads.FreeSlot)
	// Synced is called with the duration of each sync of the journal to the disk.
	Synced func(took time.Duration)
}

// Claim is a session's attempt to claim its item. Scheduled work needs no claim and counts as won at once.
type Claim struct {
	Start        *ledger.Start
	Began, Ended time.Time
	Result       ClaimResult
}

// ClaimResult is how a claim ended.
type ClaimResult string

// The results of claims.
const (
	ClaimWon         ClaimResult = "won"
	ClaimLost        ClaimResult = "lost" // another supervisor or a person claimed the item first
	ClaimForbidden   ClaimResult = "forbidden"
	ClaimUnavailable ClaimResult = "unavailable"
	ClaimCancelled   ClaimResult = "cancelled" // the session was ended meanwhile
)

// Deed is a chore that was tried.
type Deed struct {
	Action       threads.Action
	Ref          forge.Ref
	Chain        forge.Ref // of a merge that was requested: the issue, or the pull request if it has none
	Began, Ended time.Time
	Result       DeedResult
}

// DeedResult is how a chore ended.
type DeedResult string

// The results of chores.
const (
	DeedDone       DeedResult = "done"
	DeedRefused    DeedResult = "refused"
	DeedUnanswered DeedResult = "unanswered"
)

// claimed meters the claim of a session.
func (rn *sessionRunner) claimed(x *session, began time.Time, failed *ledger.End) {
	if rn.meters.Claimed == nil {
		return
	}
	c := Claim{Start: startOf(x).Start, Began: began, Ended: time.Now(), Result: ClaimWon}
	if failed != nil {
		c.Result = map[ledger.ClaimFailure]ClaimResult{
			ledger.ClaimTaken: ClaimLost, ledger.ClaimForbidden: ClaimForbidden,
			ledger.ClaimUnavailable: ClaimUnavailable, "": ClaimCancelled,
		}[failed.Claim]
	}
	rn.meters.Claimed(c)
}

// done meters a chore.
func (k *clerk) done(c *chore, began time.Time, err error) {
	if k.meters.Done == nil {
		return
	}
	d := Deed{Action: c.action, Ref: c.ref, Chain: c.chain, Began: began, Ended: time.Now(), Result: DeedDone}
	switch {
	case errors.Is(err, forge.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		d.Result = DeedUnanswered
	case err != nil:
		d.Result = DeedRefused
	}
	k.meters.Done(d)
}
