package forgetest

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/supervisor"
)

// The interfaces are identical: the supervisor can use every client that passes Exercise, and every client of the
// supervisor can be passed to it. The same holds for desks and the built-in agent program.
var (
	_ supervisor.Forge = Forge(nil)
	_ Forge            = supervisor.Forge(nil)

	_ session.Desk = Desk(nil)
	_ Desk         = session.Desk(nil)
)

// TestModel: the smallest forge passes all rules.
func TestModel(t *testing.T) {
	Exercise(t, func(t *testing.T, check Check) {
		synctest.Test(t, func(t *testing.T) { check(t, newModel(t, "")) })
	})
}

// TestBites: each of these flaws makes a rule fail.
func TestBites(t *testing.T) {
	for _, flaw := range []string{
		"strangers command", "the supervisor commands", "agents command", "commands are believed", "all take a command",
		"all may write",
		"AsOf is when it was filed", "labels are in the order of the draft", "ended issues vanish", "text is not read",
		"cancelled unblocks", "conflicts are believed at once", "checks stay when the head moves", "all comments are counted",
		"every account may write", "looks find no pull requests", "readers are prepared", "contexts are ignored",
		"held items are claimed", "closed items are claimed", "skip labels are ignored", "assignees are ignored",
		"half claims are claimed", "old facts are claimed on", "claims race", "claims name what they like",
		"released claims have a commit", "holders are hidden", "held items are released",
		"releases of nothing fail", "releases take backlog", "nothing is freed",
		"moves are not repeated", "claimed issues are moved", "closed issues are moved", "moves come from anywhere",
		"backlog is removed", "unknown labels are dropped", "anybody's mark counts", "comments are repeated",
		"kept comments are repeated", "kept comments keep their text",
		"blocked issues stay open in silence", "dependencies are not repeated", "merges are not repeated",
		"any head is merged", "any base is merged into", "a changed base has no time",
		"all comments are read", "agents answer", "strangers answer", "commands are answers", "old answers are shown",
		"no plan is liked", "strangers like plans", "labels have no account",
		"the opener wrote everything", "an unfinished merge does not show",
		"errors have the token in them", "readers may work", "requests are not counted",
	} {
		t.Run(flaw, func(t *testing.T) {
			for _, r := range rules() {
				if failure := try(t, r, flaw); failure != "" {
					t.Logf("%s: %s", r.name, failure)
					return
				}
			}
			t.Error("every rule passes in spite of the flaw")
		})
	}
}

// try runs a rule on a model with a flaw. It returns the rule's first failure, or "" when the rule passed.
func try(t *testing.T, r rule, flaw string) (failure string) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.check(newWorld(rec, newModel(rec, flaw)))
		}()
		<-done
		failure = rec.failure
	})
	return failure
}

// recorder is a testing.TB that can fail without failing the test: it records the first failure.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Errorf(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }
