package forgejo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// talkBatch is how many talks one scan reads. Most factories have fewer.
	talkBatch = 16
	// likesEvery is how often the reactions to a plan are read: a reaction does not change the issue's update time.
	likesEvery = 10 * time.Second
	// likesBatch is for how many plans one scan reads the reactions.
	likesBatch = 8
)

// talk caches the comments on an item whose labels say that people and agents discuss it.
type talk struct {
	remarks    []forge.Remark
	approvedBy string
	of         time.Time // the item's Updated when it was read
	readAt     time.Time // the forge's clock; zero before the first reading
	triedAt    time.Time // our clock
	likedAt    time.Time // our clock: when the reactions to the last plan were read
	failed     failure
}

// listener is an open item whose comments are read.
type listener struct {
	number    int64
	updated   time.Time
	filers    []string // authors of the issue, or of the pull request and its issues
	approved  bool     // labelled plan-approved
	unplanned bool     // labelled plan-first, and not known to be approved by a person
	*talk
}

// due reports whether the comments must be read: after a change, including one in the same second as the last
// reading, and every settledEvery, because an account may have been given write access.
func (l *listener) due(now time.Time) bool {
	if l.failed.recent(now, l.updated) {
		return false
	}
	settled := l.of.Equal(l.updated) && !l.readAt.Before(l.updated.Add(granularity))
	return !settled || now.Sub(l.triedAt) >= settledEvery
}

// listeners returns the items of a repository whose labels say that people and agents discuss them, sorted by number.
// It forgets the talks of all other items.
func (r *repo) listeners(c *Client) []listener {
	var all []listener
	talks := make(map[int64]*talk)
	add := func(l listener) {
		if l.talk = r.talks[l.number]; l.talk == nil {
			l.talk = &talk{}
		}
		l.unplanned = l.unplanned && (!l.approved || l.approvedBy == "" || c.isAgent(l.approvedBy))
		talks[l.number] = l.talk
		all = append(all, l)
	}
	for _, n := range slices.Sorted(maps.Keys(r.issues)) {
		i := r.issues[n]
		first, approved := i.Has(forge.LabelPlanFirst), i.Has(forge.LabelPlanApproved)
		if !i.Closed && (first || approved || i.Has(forge.LabelNeedsAnswer)) {
			add(listener{n, i.Updated, []string{i.Author}, approved, first, nil})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(r.pulls)) {
		if p := r.pulls[n]; !p.Closed && p.Has(forge.LabelNeedsAnswer) {
			filers := []string{p.Author}
			for _, ref := range p.Closes {
				if i := r.issues[ref.Number]; i != nil && ref.Repo == r.name {
					filers = append(filers, i.Author)
				}
			}
			add(listener{n, p.Updated, filers, false, false, nil})
		}
	}
	r.talks = talks
	return all
}

// readTalks reads the comments on the items that people and agents discuss, and the reactions to plans.
func (c *Client) readTalks(ctx context.Context, r *repo) error {
	now := time.Now()
	c.mu.Lock()
	all := r.listeners(c)
	c.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	due := oldest(all, talkBatch, func(l *listener) (time.Time, bool) { return l.triedAt, l.due(now) })
	unread := inParallel(ctx, len(due), func(ctx context.Context, n int) error { return c.readTalk(ctx, r, &due[n], me) })
	if isOutage(unread) {
		return unread
	}
	plans := oldest(all, likesBatch, func(l *listener) (time.Time, bool) {
		return l.likedAt, l.unplanned && l.plan() >= 0 && now.Sub(l.likedAt) >= likesEvery
	})
	return errors.Join(unread, inParallel(ctx, len(plans), func(ctx context.Context, n int) error {
		return c.readLikes(ctx, r, &plans[n])
	}))
}

// oldest returns the listeners that fit and were served longest ago; most bounds their number.
func oldest(all []listener, most int, fits func(*listener) (served time.Time, fit bool)) []listener {
	some := slices.DeleteFunc(slices.Clone(all), func(l listener) bool { _, fit := fits(&l); return !fit })
	slices.SortStableFunc(some, func(a, b listener) int {
		served, than := time.Time{}, time.Time{}
		served, _ = fits(&a)
		than, _ = fits(&b)
		return served.Compare(than)
	})
	return some[:min(len(some), most)]
}

// plan returns the index of the last plan in remarks; -1 if there is none.
func (t *talk) plan() int {
	for i := len(t.remarks) - 1; i >= 0; i-- {
		if strings.HasPrefix(t.remarks[i].Key, forge.PlanKey) {
			return i
		}
	}
	return -1
}

// readTalk reads the comments on one item, and who approved its plan.
func (c *Client) readTalk(ctx context.Context, r *repo, l *listener, me string) error {
	ref := forge.Ref{Repo: r.name, Number: l.number}
	in, x, err := c.comments(ref, time.Time{}).all(ctx)
	approvedBy := ""
	if err == nil && l.approved {
		approvedBy, err = c.readApproval(ctx, ref, l.talk)
	}
	if isOutage(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.triedAt = time.Now(); err != nil {
		l.failed = failure{l.triedAt, l.updated}
		return fmt.Errorf("comments of %s: %w", ref, err)
	}
	liked := make(map[int64][]string)
	for _, m := range l.remarks {
		liked[m.ID] = m.Likes
	}
	l.remarks = c.remarksOf(r, in, me, l.filers)
	for i := range l.remarks {
		l.remarks[i].Likes = liked[l.remarks[i].ID]
	}
	l.approvedBy, l.of, l.readAt = approvedBy, l.updated, x.forgeBegan()
	return nil
}

// remarksOf returns the comments that matter: our questions and plans, and the comments of accounts that can answer.
// Comments of other accounts use no memory, however many there are.
func (c *Client) remarksOf(r *repo, in []*gitea.Comment, me string, filers []string) []forge.Remark {
	var all []forge.Remark
	for _, one := range in {
		if one == nil || loginOf(one.Poster) == me && isEdited(one) {
			continue // an agent may have edited our comment, so it neither asks nor answers
		}
		m := forge.Remark{ID: one.ID, Author: loginOf(one.Poster)}
		m.Writer = r.mayWrite(m.Author)
		if m.Author == me {
			m.Key = keyOf(one.Body)
		}
		counts := m.Writer && !c.isAgent(m.Author) || slices.Contains(filers, m.Author)
		if m.Key != "" || counts && m.Author != "" && !forge.IsCommand(one.Body) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b forge.Remark) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Clone(forge.Relevant(all))
}

var markPattern = regexp.MustCompile(`<!-- disinto:([A-Za-z0-9._:/-]+) -->\s*$`)

// isEdited reports whether a comment was edited. Every account with write access to the repository can edit other
// accounts' comments, and agents have write access. The forge's times are whole seconds.
func isEdited(in *gitea.Comment) bool { return !in.Updated.Equal(in.Created) }

// keyOf returns the key of one of our comments; empty if a person wrote the comment with our account.
func keyOf(body string) string {
	if m := markPattern.FindStringSubmatch(body); m != nil {
		return m[1]
	}
	return ""
}

// readApproval reads which account last labelled an issue plan-approved. It reads only the events since the last
// reading.
func (c *Client) readApproval(ctx context.Context, ref forge.Ref, t *talk) (string, error) {
	c.mu.Lock()
	by, since := t.approvedBy, time.Time{}
	if by != "" {
		since = t.readAt.Add(-overlap)
	}
	c.mu.Unlock()
	events, err := c.timeline(ctx, past{Ref: ref, since: since})
	if err != nil {
		return "", err
	}
	labelled := slices.DeleteFunc(events, func(e *event) bool {
		return e.Label == nil || e.Label.Name != forge.LabelPlanApproved || e.Body == "" // an empty body: removed
	})
	if e := lastEvent(labelled, "label"); e != nil {
		by = loginOf(e.User)
	}
	return by, nil
}

// readLikes reads which accounts with write access gave the last plan of an item a thumbs-up.
func (c *Client) readLikes(ctx context.Context, r *repo, l *listener) error {
	c.mu.Lock()
	at0 := l.plan()
	if at0 < 0 {
		c.mu.Unlock()
		return nil
	}
	id := l.remarks[at0].ID
	c.mu.Unlock()
	owner, name := owner(r.name)
	g, x := c.sdk(ctx)
	in, _, err := g.GetIssueCommentReactions(owner, name, id)
	in, err = entries(x, in, err)
	if err == nil && slices.ContainsFunc(in, func(one *gitea.Reaction) bool {
		return one != nil && one.User != nil && !c.isAgent(one.User.UserName)
	}) {
		err = c.unedited(ctx, forge.Ref{Repo: r.name, Number: l.number}, id) // an edit does not change the issue
	}
	if isOutage(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.likedAt = time.Now(); errors.Is(err, forge.ErrNotFound) { // the comment was deleted or edited
		l.of = time.Time{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reactions to the plan of %s#%d: %w", r.name, l.number, err)
	}
	var likes []string
	for _, one := range in {
		if one != nil && one.User != nil && one.Reaction == "+1" && r.mayWrite(one.User.UserName) {
			likes = append(likes, one.User.UserName)
		}
	}
	slices.Sort(likes)
	if i := l.plan(); i >= 0 && l.remarks[i].ID == id {
		l.remarks = slices.Clone(l.remarks) // the facts share the old slice
		l.remarks[i].Likes = slices.Compact(likes)
	}
	return nil
}

// unedited returns forge.ErrNotFound if a comment on an item was deleted or edited.
func (c *Client) unedited(ctx context.Context, ref forge.Ref, id int64) error {
	all, _, err := c.comments(ref, time.Time{}).all(ctx)
	if err == nil && !slices.ContainsFunc(all, func(in *gitea.Comment) bool {
		return in != nil && in.ID == id && !isEdited(in)
	}) {
		err = fmt.Errorf("%w: the comment was deleted or edited", forge.ErrNotFound)
	}
	return err
}

// talkFact returns the talk of an item whose last change was at updated.
func (r *repo) talkFact(number int64, updated time.Time) forge.Talk {
	t := r.talks[number]
	if t == nil || t.readAt.IsZero() || !t.of.Equal(updated) {
		return forge.Talk{}
	}
	return forge.Talk{Known: true, Remarks: t.remarks, ApprovedBy: t.approvedBy}
}
