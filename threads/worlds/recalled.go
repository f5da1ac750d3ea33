package worlds

import (
	"fmt"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/delta"
	"codeberg.org/johba/disinto/threads/wire"
)

// recall checks that an earlier snapshot and the changes since then rebuild a plan's snapshot, and the same plan.
// since has the earlier snapshot, and is set to s.
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
