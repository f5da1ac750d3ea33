package threads

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestEveryRuleCounts removes each rule in turn and plays the scripts. At least one script must then give other
// answers: a rule without such a script has no effect or no test.
func TestEveryRuleCounts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	rules := everyRule()
	answers := make(map[string]string) // with all rules, because the files may be outdated
	heard := make([][]string, len(rules))
	for _, file := range files {
		var undo []func()
		for i, r := range rules {
			undo = append(undo, r.watched(func() {
				if !slices.Contains(heard[i], file) {
					heard[i] = append(heard[i], file)
				}
			}))
		}
		_, answers[file] = play(t, file)
		for _, u := range undo {
			u()
		}
	}
	for i, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			defer r.without()()
			for _, file := range heard[i] { // without an objection of the rule, its removal changes no answer
				if changes(t, file, answers[file]) {
					return
				}
			}
			t.Error("no script gives another answer without this rule")
		})
	}
}

// TestRulesKeepToTheirSubjects asks every rule about every item of the scripts. A rule must not object to an item that
// has none of its subjects, because a decision does not ask it then.
func TestRulesKeepToTheirSubjects(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	unasked := 0
	for _, file := range files {
		playWith(t, file, func(s *Snapshot) {
			if s.Config == nil {
				return
			}
			_, d := decide(s)
			for i := range d.items {
				w := &d.items[i]
				for _, r := range rulesFor(w) {
					if w.concerns(r.about) {
						continue
					}
					unasked++
					if why := r.why(d.view, w); why != nil {
						t.Errorf("%s: %s: %q is not asked, and would say %q", file, w.Ref, r.name, why.Text())
					}
				}
				for _, r := range markRules {
					if m := r.due(d, w); m != nil && w.role == nil && !w.concerns(r.about) {
						t.Errorf("%s: %s: %q is not asked, and would write %q", file, w.Ref, r.name, m.Reason.Text())
					}
				}
			}
		})
	}
	if unasked < 1000 {
		t.Errorf("got %d rules that were not asked, want thousands", unasked)
	}
}

// changes reports whether a script gives other answers now. A panic counts: a rule may rely on those before it.
func changes(t *testing.T, file, before string) (changed bool) {
	defer func() {
		if recover() != nil {
			changed = true
		}
	}()
	_, got := play(t, file)
	return got != before
}

// removable is a rule of a list. without makes it object to nothing, and watched makes it call said whenever it
// objects. Both return an undo function.
type removable struct {
	name    string
	without func() (undo func())
	watched func(said func()) (undo func())
}

func everyRule() (all []removable) {
	for list, rules := range map[string][]itemRule{"issue": issueRules, "pull": pullRules, "schedule": scheduleRules} {
		for i := range rules {
			all = append(all, remove(list, i, rules[i].name, &rules[i].why, func(*view, *work) *Reason { return nil }))
		}
	}
	for i := range candidateRules {
		r := &candidateRules[i]
		all = append(all, remove("candidate", i, r.name, &r.why, func(*view, *traits, candidate) *Reason { return nil }))
	}
	for i := range freeRules {
		r := &freeRules[i]
		all = append(all, remove("free", i, r.name, &r.why, func(*view, candidate) *Reason { return nil }))
	}
	for i := range slotRules {
		r := &slotRules[i]
		all = append(all, remove("slot", i, r.name, &r.why, func(*view, *work, candidate, int) *Reason { return nil }))
	}
	for i := range warmthRules {
		r := &warmthRules[i]
		all = append(all, remove("warm", i, r.name, &r.is, func(*view, *work, candidate, int) bool { return false }))
	}
	for i := range stealRules {
		r := &stealRules[i]
		all = append(all, remove("steal", i, r.name, &r.why, func(*balancer, *work, string) *Reason { return nil }))
	}
	return append(all, everyStep()...)
}

// everyStep returns the rules of reconcile.
func everyStep() (all []removable) {
	for i := range stopRules {
		r := &stopRules[i]
		all = append(all, remove("stop", i, r.name, &r.why, func(*decision, *Session) *Reason { return nil }))
	}
	for i := range spendRules {
		r := &spendRules[i]
		none := func(*Config, *History, *Session, time.Time) *Reason { return nil }
		all = append(all, remove("spend", i, r.name, &r.why, none))
	}
	for i := range spareRules {
		r := &spareRules[i]
		all = append(all, remove("spare", i, r.name, &r.so, func(*decision, *Session) bool { return false }))
	}
	for i := range markRules {
		r := &markRules[i]
		all = append(all, remove("mark", i, r.name, &r.due, func(*decision, *work) *Mark { return nil }))
	}
	for i := range endRules {
		r := &endRules[i]
		all = append(all, remove("end", i, r.name, &r.why, func(*view, *work) *Reason { return nil }))
	}
	return all
}

func remove[F any](list string, i int, name string, rule *F, yes F) removable {
	put := func(other F) (undo func()) {
		was := *rule
		*rule = other
		return func() { *rule = was }
	}
	return removable{
		name:    fmt.Sprintf("%s/%d %s", list, i, name),
		without: func() func() { return put(yes) },
		watched: func(said func()) func() {
			real := reflect.ValueOf(*rule)
			return put(reflect.MakeFunc(real.Type(), func(args []reflect.Value) []reflect.Value {
				out := real.Call(args)
				if !out[0].IsZero() {
					said()
				}
				return out
			}).Interface().(F))
		},
	}
}
