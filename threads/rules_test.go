package threads

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// scriptOf has, for each rule, a script of testdata that gives other answers without it.
var scriptOf = map[string]string{
	"issue/open":                                    "pull_rules",
	"issue/no agent works on it":                    "paused",
	"issue/labelled backlog":                        "item_rules",
	"issue/repository read":                         "item_rules",
	"issue/branches can be pushed":                  "cannot_push",
	"issue/facts newer than our writes":             "item_rules",
	"issue/pull request not merged":                 "item_rules",
	"issue/no question open":                        "question",
	"issue/no label in the way":                     "item_rules",
	"issue/no person assigned":                      "item_rules",
	"issue/not claimed by another host":             "issue_claims",
	"issue/no claim left over":                      "item_rules",
	"issue/no open pull request":                    "pull_rules",
	"issue/pull request not rejected":               "item_rules",
	"issue/rounds left":                             "rounds",
	"issue/not filed twice":                         "duplicates",
	"issue/not in a staged convoy":                  "convoy",
	"issue/blockers known":                          "blockers",
	"issue/not blocked by itself":                   "item_rules",
	"issue/not on a dependency cycle":               "blockers",
	"issue/every blocker closed":                    "blockers",
	"issue/not refused by an agent":                 "item_rules",
	"issue/within the issue's limit":                "limits",
	"issue/comments read":                           "plan",
	"issue/no plan waits for people":                "plan",
	"issue/attempts left":                           "item_rules",
	"issue/new work may start":                      "drain",
	"issue/its repository may start work":           "repos",
	"issue/back-off over":                           "item_rules",
	"issue/chain free":                              "ladder",
	"issue/its opener's sessions left":              "spend",
	"issue/review has room":                         "capacity",
	"issue/labelled to be planned":                  "plan",
	"pull/open":                                     "pull_rules",
	"pull/no agent works on it":                     "reconcile",
	"pull/repository read":                          "item_rules",
	"pull/facts newer than our writes":              "pull_rules",
	"pull/no question open":                         "question",
	"pull/no label in the way":                      "rounds",
	"pull/no claim left over":                       "reconcile",
	"pull/its commits are not merged":               "approvals",
	"pull/its issue is open":                        "edges",
	"pull/goes where we merge":                      "approvals",
	"pull/its issue's plan approved":                "plan",
	"pull/not a draft":                              "pulls",
	"pull/next step is ours":                        "merge",
	"pull/a review agent exists":                    "people_review",
	"pull/review asked for":                         "authors",
	"pull/a session handed it in last":              "spend",
	"pull/CI reported":                              "merge",
	"pull/rounds left":                              "rounds",
	"pull/not too big to review":                    "too_big",
	"pull/not refused by an agent":                  "pull_rules",
	"pull/within the issue's limit":                 "limits",
	"pull/attempts left":                            "pull_rules",
	"pull/its repository may start work":            "repos",
	"pull/back-off over":                            "pull_rules",
	"pull/chain free":                               "waits_for_review",
	"pull/its branch is not red":                    "red",
	"pull/its author's reviews left":                "authors",
	"pull/its opener's sessions left":               "spend",
	"pull/supervisor merges":                        "pull_rules",
	"pull/no person objects":                        "edges",
	"pull/not refused by the forge":                 "merge",
	"pull/first to be up to date":                   "merge",
	"pull/merges cleanly":                           "edges",
	"schedule/no agent works on it":                 "schedule",
	"schedule/repository read":                      "schedule",
	"schedule/due":                                  "schedule",
	"schedule/new work may start":                   "drain",
	"schedule/its repository may start work":        "repos",
	"schedule/back-off over":                        "schedule",
	"end/refused by an agent":                       "marks",
	"end/out of money":                              "limits",
	"end/asked or planned by an agent":              "question",
	"end/out of rounds":                             "rounds",
	"end/out of attempts":                           "marks",
	"end/split twice":                               "split",
	"end/waits for cancelled work":                  "convoy",
	"end/filed twice":                               "duplicates",
	"end/not worked on, or shown in part":           "edges",
	"end/waits for itself":                          "blockers",
	"candidate/role fits":                           "agents",
	"candidate/has the skills":                      "agents",
	"candidate/works in the repository":             "repos",
	"candidate/has access to the repository":        "repos",
	"spend/its repository within the budget":        "repos",
	"candidate/not pinned to another":               "agents",
	"candidate/on its route":                        "routes",
	"candidate/author first":                        "pulls",
	"candidate/asker first":                         "question",
	"candidate/on its rung":                         "ladder",
	"candidate/not its own work":                    "pairing",
	"candidate/not local on local":                  "pairing",
	"candidate/its work can be reviewed":            "stuck_pairing",
	"candidate/another first after a failure":       "failing",
	"free/not failing":                              "failing",
	"free/one try while failing":                    "failing",
	"free/role has a program":                       "no_program",
	"free/has a token":                              "agents",
	"free/agent not held":                           "agents",
	"free/not paused":                               "paused",
	"free/thread not rate limited, nor backing off": "agents",
	"free/within the budget":                        "budget",
	"free/window not used up":                       "windows",
	"free/window not reserved":                      "windows",
	"free/room on the machine":                      "room",
	"free/service ready":                            "service",
	"free/agent idle":                               "capacity",
	"free/slot free":                                "overlap",
	"warm/the slot's last conversation":             "memory",
	"warm/a conversation in the server's memory":    "memory",
	"steal/never moved before":                      "stealing",
	"steal/not begun":                               "stealing_limits",
	"steal/not urgent":                              "stealing",
	"steal/skills say who can do it":                "stealing",
	"steal/its agent is still busy":                 "stealing_fleet",
	"steal/the idle agent may have it":              "stealing",
	"steal/the idle agent has room":                 "stealing",
	"steal/not too much at once":                    "stealing_limits",
	"stop/its item is open":                         "reconcile",
	"stop/head and base unchanged":                  "reconcile",
	"stop/its item is not cancelled":                "reconcile",
	"stop/assigned to its agent":                    "reconcile",
	"spend/its session within the limit":            "limits",
	"spend/its issue within the limit":              "limits",
	"spend/its agent within the budget":             "limits",
	"spend/its thread within the budget":            "limits",
	"spare/closed by its own merge":                 "reconcile",
	"spare/merged while it waits for that":          "waits_for_review",
	"mark/a leftover claim is released":             "own_claims",
	"mark/a half-written claim is removed":          "reconcile",
	"mark/a finished convoy is closed":              "convoy",
	"mark/a merged issue is closed":                 "marks",
	"mark/an answer is recorded":                    "question",
	"mark/an issue to be planned is labelled":       "plan",
	"mark/an approved split is filed":               "split",
	"mark/a person is asked":                        "marks",
}

// TestEveryRuleCounts removes each rule in turn and plays its script, which must then give other answers. A rule
// without a script has no effect or no test.
func TestEveryRuleCounts(t *testing.T) {
	rules := everyRule()
	for name := range scriptOf {
		if !slices.ContainsFunc(rules, func(r removable) bool { return r.name == name }) {
			t.Errorf("scriptOf names a script for %q, which is no rule", name)
		}
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			script, named := scriptOf[r.name]
			if !named {
				t.Fatal("scriptOf names no script that gives other answers without this rule")
			}
			file := filepath.Join("testdata", script+".txt")
			_, before := play(t, file) // the file may be outdated
			defer r.without()()
			if !changes(t, file, before) {
				t.Errorf("%s gives the same answers without this rule", file)
			}
		})
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

// removable is a rule of a list. without makes it object to nothing, and returns an undo function.
type removable struct {
	name    string // its list and its name
	without func() (undo func())
}

func everyRule() (all []removable) {
	for list, rules := range map[string][]itemRule{"issue": issueRules, "pull": pullRules, "schedule": scheduleRules} {
		for i := range rules {
			all = append(all, remove(list, rules[i].name, &rules[i].why, func(*view, *work) *Reason { return nil }))
		}
	}
	for i := range candidateRules {
		r := &candidateRules[i]
		all = append(all, remove("candidate", r.name, &r.why, func(*view, *traits, candidate) *Reason { return nil }))
	}
	for i := range freeRules {
		r := &freeRules[i]
		all = append(all, remove("free", r.name, &r.why, func(*view, candidate) *Reason { return nil }))
	}
	for i := range warmthRules {
		r := &warmthRules[i]
		all = append(all, remove("warm", r.name, &r.is, func(*view, *work, candidate, int) bool { return false }))
	}
	for i := range stealRules {
		r := &stealRules[i]
		all = append(all, remove("steal", r.name, &r.why, func(*balancer, *work, string) *Reason { return nil }))
	}
	return append(all, everyStep()...)
}

// everyStep returns the rules of reconcile.
func everyStep() (all []removable) {
	for i := range stopRules {
		r := &stopRules[i]
		all = append(all, remove("stop", r.name, &r.why, func(*decision, *Session) *Reason { return nil }))
	}
	for i := range spendRules {
		r := &spendRules[i]
		none := func(*Config, *History, *Session, time.Time) *Reason { return nil }
		all = append(all, remove("spend", r.name, &r.why, none))
	}
	for i := range spareRules {
		r := &spareRules[i]
		all = append(all, remove("spare", r.name, &r.so, func(*decision, *Session) bool { return false }))
	}
	for i := range markRules {
		r := &markRules[i]
		all = append(all, remove("mark", r.name, &r.due, func(*decision, *work) *Mark { return nil }))
	}
	for i := range endRules {
		r := &endRules[i]
		all = append(all, remove("end", r.name, &r.why, func(*view, *work) *Reason { return nil }))
	}
	return all
}

func remove[F any](list, name string, rule *F, none F) removable {
	return removable{list + "/" + name, func() (undo func()) {
		was := *rule
		*rule = none
		return func() { *rule = was }
	}}
}
