package worlds

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// holdTest returns the test of a reason. For a code of issueObstacles it tests whether the obstacle exists in the
// plan's facts; the other tests are in holdTests. listed is false for a code without a test.
func holdTest(code threads.Code) (test func(held) bool, listed bool) {
	for i := range issueObstacles {
		if o := &issueObstacles[i]; o.code == code {
			return func(h held) bool { return o.stands(h.forge, &issue{Issue: *h.is}) }, true
		}
	}
	test, listed = holdTests[code]
	return test, listed
}

// holdTests are the tests of reasons that are not obstacles. For reasons of the classes Unfit and Busy, see noneCan.
var holdTests = map[threads.Code]func(held) bool{
	threads.NotRead: func(h held) bool { return h.readAt().IsZero() },
	threads.RepoOff: func(h held) bool {
		repo, _ := h.s.Facts.Repo(h.Item.Ref.Repo)
		return h.Reason.Note == repo.Off && repo.AsOf.IsZero()
	},
	threads.StaleFacts: func(h held) bool { return h.outdated(h.Item.Ref, h.Item.Chain) },
	threads.CoolDown:   held.cooling,
	threads.GaveUp: func(h held) bool {
		return h.Reason.Count >= maxAttempts && h.owes(h.Item.Ref, threads.ActBlocked)
	},
	threads.Refused: func(h held) bool {
		return h.s.History.Chain(h.Item.Ref).HasRefusal() && h.owes(h.Item.Ref, threads.ActNeedsHuman)
	},
	threads.OverLimit: func(h held) bool {
		return (h.s.History.Chain(h.Item.Ref).HasRefusal() || h.costly(&h.Item)) && h.owes(h.Item.Ref, threads.ActNeedsHuman)
	},
	threads.NotDue: func(h held) bool { return h.later() && h.Item.Kind == agents.KindSchedule },
	threads.SkipLabel: func(h held) bool {
		return h.labelled(h.Reason.Note) && forge.SkipLabel([]string{h.Reason.Note}) != "" &&
			h.Reason.Note != forge.LabelNeedsAnswer
	},
	threads.NeedsAnswer: held.questioned,
	threads.PlanWaits:   held.planned,
	threads.TalkUnread: func(h held) bool {
		return !h.is.Talk.Known && (h.labelled(forge.LabelPlanFirst) || h.labelled(forge.LabelPlanApproved))
	},
	threads.PlanUnlabelled: func(h held) bool {
		return (h.planner(h.is) != nil || h.begunToPlan(h.Item.Ref)) &&
			!h.labelled(forge.LabelPlanFirst) && h.owes(h.Item.Ref, threads.ActPlanFirst)
	},
	threads.NoPlan: func(h held) bool {
		is := h.s.Facts.Issue(h.Reason.Refs[0])
		return is.Ref == h.Item.Chain && h.own(h.p) && !h.cleared(is) &&
			(is.Has(forge.LabelPlanFirst) || h.begunToPlan(is.Ref))
	},
	threads.ClaimedElsewhere: func(h held) bool {
		return h.elsewhere(h.Reason.Note) && (h.assigned(h.Reason.Note) || h.p.Author == h.Reason.Note)
	},
	threads.ClaimLeft: func(h held) bool {
		return h.labelled(forge.LabelInProgress) && (h.Reason.Agent == "" || h.owes(h.Item.Ref, threads.ActRelease))
	},

	threads.AssignedHuman: func(h held) bool {
		return h.assigned(h.Reason.Note) && !h.ours(h.Reason.Note) && !h.bot(h.Reason.Note)
	},
	threads.HasPull: func(h held) bool {
		return allOf(h.Reason.Refs, func(ref forge.Ref) bool {
			p := h.s.Facts.Pull(ref)
			return !p.Closed && slices.Contains(p.Closes, h.is.Ref)
		})
	},
	threads.MergedNotClosed: held.mergedNotClosed,
	threads.PullRejected: func(h held) bool {
		return h.ended(func(p *forge.Pull) bool {
			forgiven := !p.Ended.After(h.s.History.Chain(h.is.Ref).Retried)
			return p.Ref == h.Reason.Refs[0] && !p.Merged && h.ours(p.Author) && !h.ours(p.ClosedBy) && !forgiven
		})
	},
	threads.StagedConvoy: func(h held) bool {
		convoy := h.s.Facts.Issue(h.Reason.Refs[0])
		member := func(b forge.Blocker) bool { return b.Ref == h.is.Ref }
		return stagedConvoy(convoy) && (convoy == h.is || slices.ContainsFunc(convoy.Blockers, member))
	},
	threads.Tracking: func(h held) bool {
		return h.trackingWith(h.Reason.Count) && h.Reason.Count < max(h.Reason.Limit, 1)
	},
	threads.ConvoyOver: func(h held) bool {
		return h.trackingWith(len(h.is.Blockers)) && len(h.is.Blockers) > 0
	},
	threads.BlockersUnknown: func(h held) bool {
		return !h.is.BlockersKnown || len(states(h.is, forge.BlockerUnknown)) > 0 || h.unreadConvoy()
	},
	threads.TextTooLong: func(h held) bool { return h.is.Cut && !h.is.BlockersKnown },
	threads.BlocksItself: func(h held) bool {
		self := func(b forge.Blocker) bool { return b.Ref == h.is.Ref }
		return slices.ContainsFunc(h.is.Blockers, self) && h.asked()
	},
	threads.BlockerCycle: func(h held) bool {
		first := slices.MinFunc(h.Reason.Refs, forge.Ref.Compare) == h.is.Ref
		return h.circle(h.Reason.Refs) && (!first || h.asked())
	},
	threads.BlockerMissing:    func(h held) bool { return h.names(forge.BlockerMissing) },
	threads.BlockerUnreadable: func(h held) bool { return h.names(forge.BlockerUnreadable) },
	threads.BlockerCancelled: func(h held) bool {
		return len(h.Reason.Refs) > 0 && slices.Equal(h.Reason.Refs, h.givenUp()) && h.asked()
	},
	threads.BlockerOpen: func(h held) bool {
		return h.names(forge.BlockerOpen) && !h.reaches(h.is.Ref, h.is.Ref, nil)
	},
	threads.BlockerUnmerged: func(h held) bool { return h.names(forge.BlockerUnmerged) && h.cfg.Forge.RequireMerged },
	threads.Unreviewed: func(h held) bool {
		return h.backlogFull(h.is.Repo) && h.Reason.Count == len(h.unreviewed(h.is.Repo))
	},

	threads.Superseded: func(h held) bool {
		return slices.Equal(h.Reason.Refs, h.p.Closes) && h.own(h.p) && h.unwanted(h.p) && h.asked()
	},
	threads.BaseChanged: func(h held) bool {
		return h.stray(h.p) && h.Reason.Note == h.p.Base && h.asked()
	},
	threads.Draft:     func(h held) bool { return h.p.Draft },
	threads.CIPending: func(h held) bool { return h.p.CI == forge.CIPending && h.Item.Kind != agents.KindRework },
	threads.NotOurs: func(h held) bool {
		return h.p.Author == h.Reason.Note && !h.own(h.p) && !h.wantsReview(h.p)
	},
	threads.Uninvited: func(h held) bool {
		return h.p.Author == h.Reason.Note && h.p.Stranger && !h.p.Has("review") && !h.own(h.p)
	},
	threads.ReviewLimit: func(h held) bool {
		return h.p.Author == h.Reason.Note && !h.own(h.p) && h.Reason.Count >= h.cfg.Forge.MaxReviewsHour &&
			h.Reason.Count == h.reviewsOf(h.p.Author)
	},
	threads.PeopleReview: func(h held) bool { return !slices.ContainsFunc(h.cfg.Agents, h.reviewer) },
	threads.MergeManual:  func(h held) bool { return !h.cfg.Forge.MergeAuto && h.approved(&h.Item) },
	threads.HumanObjects: func(h held) bool { return h.forge.verdicts(h.p, h.writers(h.p), true).objected },
	threads.MergeLate: func(h held) bool {
		late := h.p.Mergeable != forge.MergeClean || h.outdated(forge.Ref{Repo: h.p.Repo})
		return h.approved(&h.Item) && late
	},
	threads.MergeQueued: func(h held) bool {
		first := h.Reason.Refs[0]
		merged := func(m threads.Merge) bool { return m.Ref == first }
		return first.Repo == h.p.Repo && slices.ContainsFunc(h.plan.Merges, merged)
	},
	threads.SlotKept: func(h held) bool { // holdTrue also checks that no agent can take the item
		p, a := h.s.Facts.Pull(h.Reason.Refs[0]), h.cfg.Agent(h.Reason.Agent)
		return p != nil && a != nil && p.Author == a.Login && a.Thread == h.Reason.Thread && h.judgedSoon(p) && h.later()
	},
	threads.TooManyRounds: func(h held) bool { return h.tooOften(&h.Item) && h.owes(h.Item.Ref, threads.ActNeedsHuman) },
}

// reviewsOf counts the reviews of an account's pull requests that started in the last hour, or start in the plan.
func (h held) reviewsOf(author string) int {
	n := 0
	if a := h.s.History.Authors[author]; a != nil {
		for _, at := range a.Reviews {
			if at.Add(time.Hour).After(h.Now) {
				n++
			}
		}
	}
	for _, st := range h.plan.Starts {
		if st.Item.Kind == agents.KindReview && h.s.Facts.Pull(st.Item.Ref).Author == author {
			n++
		}
	}
	return n
}

func (h held) later() bool { return h.Reason.Until.After(h.Now) }

func (h held) readAt() time.Time {
	r, _ := h.s.Facts.Repo(h.Item.Ref.Repo)
	return r.AsOf
}

// outdated reports whether the facts of any of the items were requested before our last write to it.
func (h held) outdated(refs ...forge.Ref) bool {
	_, err := h.asOf(refs...)
	return err != nil
}

func (h held) labelled(label string) bool { return h.is.Has(label) || h.p.Has(label) }

func (h held) assigned(login string) bool {
	return slices.Contains(h.is.Assignees, login) || slices.Contains(h.p.Assignees, login)
}

// owes reports whether the plan has the given mark.
func (h held) owes(ref forge.Ref, a threads.Action) bool {
	return slices.ContainsFunc(h.plan.Marks, func(m threads.Mark) bool { return m.Ref == ref && m.Action == a })
}

// asked reports whether people were notified of the reason on the item, or the plan does that now.
func (h held) asked() bool {
	tells := func(m threads.Mark) bool {
		actions := []threads.Action{threads.ActTell, threads.ActNeedsHuman, threads.ActBlocked, threads.ActAsk}
		return m.Ref == h.Item.Ref && slices.Contains(actions, m.Action)
	}
	return h.s.History.Chain(h.Item.Ref).Told == h.Reason.Key() || slices.ContainsFunc(h.plan.Marks, tells)
}

func (h held) cooling() bool {
	k := h.Item.Key()
	if h.approved(&h.Item) {
		k = (&threads.Merge{Ref: h.Item.Ref}).Key()
	}
	attempts := h.s.History.Chain(h.Item.Chain).Attempt(k.Kind)
	return h.later() && (h.s.History.Item(k).CoolDown.Equal(h.Reason.Until) || attempts.Until.Equal(h.Reason.Until))
}

// mergedNotClosed also checks that the plan closes the issue if it can be closed.
func (h held) mergedNotClosed() bool {
	refusal := (&threads.Mark{Ref: h.Item.Ref}).Key()
	due := !h.kept() && !h.s.History.Item(refusal).CoolDown.After(h.Now)
	if h.p != &noPull {
		return h.landed(h.p) && (!due || len(h.Reason.Refs) > 0 || h.owes(h.p.Ref, threads.ActClose))
	}
	merged := h.ended(func(p *forge.Pull) bool { return p.Merged }) || h.hasLanded()
	return merged && (!due || h.owes(h.is.Ref, threads.ActClose))
}

// hasLanded reports whether a pull request for the issue has landed.
func (h held) hasLanded() bool {
	return slices.ContainsFunc(h.s.Facts.Pulls, func(p forge.Pull) bool {
		return slices.Contains(p.Closes, h.is.Ref) && h.landed(&p)
	})
}

// kept reports whether an open dependency prevents the issue from being closed.
func (h held) kept() bool {
	return slices.ContainsFunc(h.is.Blockers, func(b forge.Blocker) bool {
		return b.State == forge.BlockerOpen && !b.InBody
	})
}

// ended reports whether fits accepts a pull request for the issue that was closed after the issue was last opened.
func (h held) ended(fits func(*forge.Pull) bool) bool {
	return slices.ContainsFunc(h.s.Facts.Pulls, func(p forge.Pull) bool {
		return p.Closed && p.Ended.After(h.is.Reopened) && slices.Contains(p.Closes, h.is.Ref) && fits(&p)
	})
}

// names reports whether the reason names exactly the blockers in the given state.
func (h held) names(state forge.BlockerState) bool {
	return len(h.Reason.Refs) > 0 && slices.Equal(h.Reason.Refs, states(h.is, state))
}

// givenUp returns the cancelled blockers, open or closed.
func (h held) givenUp() []forge.Ref {
	var refs []forge.Ref
	for _, b := range h.is.Blockers {
		labels, _, _ := h.fact(b.Ref)
		cancelled := slices.Contains(labels, forge.LabelCancelled)
		if b.State == forge.BlockerCancelled || b.State == forge.BlockerOpen && cancelled {
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

// states returns an issue's blockers in one state.
func states(is *forge.Issue, state forge.BlockerState) []forge.Ref {
	var refs []forge.Ref
	for _, b := range is.Blockers {
		if b.State == state {
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

func stagedConvoy(is *forge.Issue) bool {
	return is != nil && !is.Closed && is.Has(forge.LabelConvoy) && is.Has(forge.LabelStaged)
}

// trackingWith reports whether the item is a convoy with the given number of closed members.
func (h held) trackingWith(closed int) bool {
	return h.is.Has(forge.LabelConvoy) && !stagedConvoy(h.is) && h.is.BlockersKnown &&
		len(states(h.is, forge.BlockerClosed)) == closed
}

// unreadConvoy reports whether the members of any staged convoy are unknown: every issue may be one of them.
func (h held) unreadConvoy() bool {
	return slices.ContainsFunc(h.s.Facts.Issues, func(is forge.Issue) bool {
		return stagedConvoy(&is) && !is.BlockersKnown
	})
}

// reaches reports whether open blockers lead from one issue to another. An issue on a cycle must not be held for an
// open blocker alone, because nothing closes that blocker before a person breaks the cycle.
func (h held) reaches(from, to forge.Ref, path []forge.Ref) bool {
	is := h.s.Facts.Issue(from)
	if is == nil || slices.Contains(path, from) {
		return false
	}
	return slices.ContainsFunc(states(is, forge.BlockerOpen), func(ref forge.Ref) bool {
		return ref == to || h.reaches(ref, to, append(path, from))
	})
}

// circle reports whether refs are a path of open blockers from the issue back to it.
func (h held) circle(refs []forge.Ref) bool {
	if len(refs) < 3 || refs[0] != h.is.Ref || refs[len(refs)-1] != h.is.Ref {
		return false
	}
	for i, ref := range refs[1:] {
		if !slices.Contains(states(h.s.Facts.Issue(refs[i]), forge.BlockerOpen), ref) {
			return false
		}
	}
	return true
}

func allOf(refs []forge.Ref, holds func(forge.Ref) bool) bool {
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r forge.Ref) bool { return !holds(r) })
}
