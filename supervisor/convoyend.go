package supervisor

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// convoyEnd has the members of a convoy by their ends, as the forge shows them now.
type convoyEnd struct {
	open     []forge.Ref // reopened since the plan
	unmerged []forge.Ref // closed, and none of their pull requests was merged
	merged   []string    // one line for each member
	byHand   []forge.Ref // closed by a person without any pull request
}

// endConvoy closes a convoy whose members are all merged, with a comment that lists them. If a member was closed with
// its pull requests unmerged, it asks a person instead. It reads the forge, because the scheduler's facts drop merged
// pull requests.
func (k *clerk) endConvoy(c *chore) error {
	end, err := k.fetchMembers(c.ref)
	switch {
	case err != nil:
		return err
	case len(end.open) > 0:
		return fmt.Errorf("%s is open: %w", mention(c.ref.Repo, end.open), forge.ErrConflict)
	case len(end.unmerged) > 0:
		c.said = "needs a person: " + mention(c.ref.Repo, end.unmerged) + " closed, and not merged"
		return k.askPerson(c, forge.LabelNeedsHuman, unmergedComment(c, &end))
	}
	if err := k.comment(c.ref, overComment(c, &end)); err != nil {
		return err
	}
	if err = k.closeIssue(c.ref); err == nil {
		c.said = fmt.Sprintf("convoy closed, %d merged", len(end.merged))
		k.events.Send(control.EventClosed, control.RefData{Repo: c.ref.Repo, Number: c.ref.Number})
	}
	return err
}

// fetchMembers reads every member of a convoy with its pull requests.
func (k *clerk) fetchMembers(convoy forge.Ref) (end convoyEnd, err error) {
	members, err := k.blockers(convoy)
	if err != nil {
		return end, err
	}
	for _, b := range members {
		look, err := k.fetchItem(b.Ref, time.Time{})
		if err != nil {
			return end, err
		}
		end.add(convoy.Repo, b.Ref, look)
	}
	return end, nil
}

func (e *convoyEnd) add(home string, ref forge.Ref, look forge.ItemFacts) {
	pulls := look.Pulls
	closed := look.Issue != nil && look.Issue.Closed && !look.Issue.Has(forge.LabelCancelled)
	if look.Pull != nil {
		pulls, closed = []forge.Pull{*look.Pull}, look.Pull.Closed
	}
	ended := false
	for i := range pulls {
		p := &pulls[i]
		if closed && p.Merged {
			line := fmt.Sprintf("- %s by %s, merged as %s", nameIn(home, ref), p.Author, nameIn(home, p.Ref))
			e.merged = append(e.merged, line)
			return
		}
		ended = ended || p.Closed
	}
	switch {
	case !closed:
		e.open = append(e.open, ref)
	case ended:
		e.unmerged = append(e.unmerged, ref)
	default:
		e.byHand = append(e.byHand, ref)
	}
}

func overComment(c *chore, end *convoyEnd) comment {
	var b strings.Builder
	fmt.Fprintf(&b, "This convoy is done: %d of %d members are merged.\n\n%s",
		len(end.merged), len(end.merged)+len(end.byHand), strings.Join(end.merged, "\n"))
	if len(end.byHand) > 0 {
		fmt.Fprintf(&b, "\n\nClosed by hand, without a pull request: %s.", mention(c.ref.Repo, end.byHand))
	}
	return comment{fmt.Sprintf("convoy-over-%d", c.ref.Number), strings.TrimSpace(b.String())}
}

func unmergedComment(c *chore, end *convoyEnd) comment {
	return comment{
		"convoy-unmerged-" + refKey(end.unmerged),
		fmt.Sprintf("All members of this convoy are closed, but %s without a merge. Please look at it: reopen what is still "+
			"to be done and remove the label `needs-human`, or close this.", mention(c.ref.Repo, end.unmerged)),
	}
}
