package sim

import (
	"fmt"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/delta"
	"codeberg.org/johba/disinto/threads/wire"
)

// recall brings back what a plan was made from, by an earlier snapshot and what has changed since, and decides again.
// since holds that snapshot.
func recall(since *threads.Snapshot, s *threads.Snapshot, p *threads.Plan) error {
	before := *since
	*since = *s
	since.History = s.History.Freeze().History()
	if before.Config != s.Config {
		return nil
	}
	text, err := wire.EncodeSnapshot(&before)
	if err != nil {
		return err
	}
	again, err := wire.DecodeSnapshot(text)
	if err != nil {
		return err
	}
	other := threads.Decide(delta.Between(&before, s).Apply(*again))
	if got, want := delta.Sum(&other), delta.Sum(p); got != want {
		return fmt.Errorf("got %+v, want %+v", other, *p)
	}
	return nil
}
