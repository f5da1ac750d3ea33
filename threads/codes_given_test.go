package threads

import (
	"path/filepath"
	"testing"
)

// givenElsewhere has the codes that no snapshot of a script gives.
var givenElsewhere = map[Code]string{
	AnotherFirst:  "it keeps an agent only from an item that another one starts in the same plan: see failing.txt",
	RuleBroken:    "Enforce gives it, which finds nothing in the plans of Decide",
	StopCancelled: "the supervisor gives it, for a command",
	StopReleased:  "the supervisor gives it, for a command",
}

// TestEveryCodeIsGiven plays the scripts and asks every rule about every item, also those that do not decide. A code
// that nothing gives has a row and no rule, or a rule without a script.
func TestEveryCodeIsGiven(t *testing.T) {
	given := make(map[Code]bool)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		playWith(t, file, func(s *Snapshot) { collectCodes(*s, given) })
	}
	for _, doc := range Codes() {
		why, elsewhere := givenElsewhere[doc.Code]
		switch {
		case !given[doc.Code] && !elsewhere:
			t.Errorf("no script gives the reason %s: add one, or say in givenElsewhere what gives it", doc.Code)
		case given[doc.Code] && elsewhere:
			t.Errorf("a script gives the reason %s, which givenElsewhere denies: %s", doc.Code, why)
		}
	}
}

// collectCodes adds the code of each reason in the plan, in the balance, and in the answers of the rules.
func collectCodes(s Snapshot, given map[Code]bool) {
	if s.Config == nil {
		return
	}
	add := func(why *Reason) {
		if why != nil {
			given[why.Code] = true
		}
	}
	plan, d := decide(&s)
	for i := range plan.Stops {
		add(&plan.Stops[i].Reason)
	}
	for i := range plan.Marks {
		add(&plan.Marks[i].Reason)
	}
	for _, h := range append(plan.Holds, plan.Unqueued...) {
		add(h.Reason)
	}
	items := d.items
	for i := range s.Facts.Issues {
		if w, err := d.find(s.Facts.Issues[i].Ref); err == nil && w.issue.Closed {
			items = append(items, *w)
		}
	}
	for i := range items {
		w := &items[i]
		for _, rule := range rulesFor(w) {
			add(rule.why(d.view, w))
		}
		traits := d.traitsOf(w)
		for _, c := range d.cands {
			for _, rule := range candidateRules {
				add(rule.why(d.view, &traits, c))
			}
			_, why := d.unfree(c)
			add(why)
		}
	}
	balance := Weigh(s)
	for _, l := range balance.Loads {
		add(l.Why)
	}
	for _, stay := range balance.Stays {
		add(stay.Reason)
	}
}
