package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// The usual times outside sessions, in trials with Delays.
const (
	usualHandover = 2 * time.Second // from a change to the decision on it, and from a session's end to the next start
	usualMerge    = 3 * time.Second // from the decision to merge to the merge
	usualAnswer   = time.Hour       // from a question, a plan or needs-human to a person's reaction
)

// The usual lengths of sessions that are in no load.
const (
	usualPlan      = 8 * time.Minute
	usualScheduled = 5 * time.Minute
	usualSigma     = 0.8
)

// The kinds of draws in a trial. The number of the issue or of the draw distinguishes draws of one kind, so that for
// the same session of the same issue equal seeds draw the same whatever else a trial does: a difference between two
// trials comes from their configurations.
const (
	lotScheduled = iota + 1
	lotPlan
	lotFailure = 1 << 12 // plus the number of the session
)

// lot seeds one draw.
type lot struct{ seed, number, part uint64 }

func (l lot) rand() *rand.Rand { return rand.New(rand.NewPCG(l.seed, l.number<<20|l.part)) }

// usualStep draws a session of a mean length that is in no load.
func usualStep(l lot, mean time.Duration) Step {
	return Step{Took: lognormal(l.rand(), mean, usualSigma), Result: agents.Done}
}

// lognormal draws a length with a mean and the sigma of its logarithm.
func lognormal(rng *rand.Rand, mean time.Duration, sigma float64) time.Duration {
	return seconds(mean.Seconds() * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2))
}
