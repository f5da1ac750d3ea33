package forgejo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// saidFor is the maximum age of a comment, by the forge's clock, to be a command: about as long as a supervisor may
	// be down over night. An older request may have been settled in another way since.
	saidFor = 24 * time.Hour
	// saidAtOnce bounds how many comments one scan reads; it reads the newest.
	saidAtOnce = 500
	// maxSaid bounds how many commands of one repository the facts contain; they contain the newest.
	maxSaid = 200
)

// said holds the commands in the comments of a repository.
type said struct {
	changedAt time.Time                      // the forge's clock: the newest change of an item in any list
	asked     time.Time                      // the forge's clock: when the request for the newest list of comments began
	heard     time.Time                      // the forge's clock: when that request was answered
	byID      map[int64]forge.CommandComment // by comment ID
}

// readSaid reads the new comments. An unchanged repository costs no request, because a comment also changes its item.
// The lists are by the forge's clock and overlap like lists of changes.
func (c *Client) readSaid(ctx context.Context, r *repo) error {
	c.mu.Lock()
	since, changed := r.said.asked.Add(-overlap), r.said.changedAt
	if r.said.asked.IsZero() {
		since = time.Now().Add(-saidFor)
	} else if changed.Before(since) {
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	all, x, err := c.allComments(r.name, since).newest(ctx, saidAtOnce)
	if err != nil {
		return fmt.Errorf("%s: comments: %w", r.name, err)
	}
	found, err := c.commandsIn(ctx, r, all, x.forgeBegan().Add(-saidFor))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := maps.Clone(r.said.byID)
	if kept == nil {
		kept = map[int64]forge.CommandComment{}
	}
	maps.DeleteFunc(kept, func(_ int64, s forge.CommandComment) bool { return s.At.Before(x.forgeBegan().Add(-saidFor)) })
	for _, s := range found {
		kept[s.ID] = s
	}
	for _, id := range slices.Sorted(maps.Keys(kept))[:max(0, len(kept)-maxSaid)] {
		delete(kept, id)
	}
	r.said.byID, r.said.asked, r.said.heard = kept, x.forgeBegan(), later(x.forgeBegan(), x.date)
	return nil
}

// commandsIn returns the commands in comments that people with write access wrote, that were never edited, and that are
// not older than oldest, by the forge's clock. The list of writers is read only if there is a command.
func (c *Client) commandsIn(
	ctx context.Context, r *repo, comments []*gitea.Comment, oldest time.Time,
) (found []forge.CommandComment, err error) {
	me, err := c.me(ctx)
	if err != nil {
		return nil, err
	}
	for _, in := range comments {
		s, ok := saidIn(r.name, in)
		if !ok || s.At.Before(oldest) || strings.EqualFold(s.Author, me) || c.isAgent(s.Author) {
			continue
		}
		may, err := c.MayWrite(ctx, r.name, s.Author)
		if err != nil {
			return nil, err
		}
		if may {
			found = append(found, s)
		}
	}
	return found, nil
}

// saidIn returns the command in a comment; ok is false if there is none, or if the comment was edited: an agent can
// edit people's comments.
func saidIn(repo string, in *gitea.Comment) (s forge.CommandComment, ok bool) {
	if in == nil || in.ID <= 0 || isEdited(in) || wasCut(in.Body) {
		return s, false
	}
	command, ok := forge.CommandIn(in.Body)
	number := numberIn(in.IssueURL)
	if number == 0 {
		number = numberIn(in.PRURL)
	}
	author := loginOf(in.Poster)
	return forge.CommandComment{
		Ref: forge.Ref{Repo: repo, Number: number}, ID: in.ID, Author: author, At: in.Created, Command: command,
	}, ok && number > 0 && author != ""
}

// numberIn returns the number at the end of an item's address; 0 if there is none.
func numberIn(address string) int64 {
	n, err := strconv.ParseInt(address[strings.LastIndexByte(address, '/')+1:], 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n
}

// saidFacts returns the commands of all repositories, in the order in which they were written. It leaves out authors
// that have become agents since their comments were read.
func (c *Client) saidFacts() []forge.CommandComment {
	var all []forge.CommandComment
	for _, r := range c.repos {
		for _, s := range r.said.byID {
			if !c.isAgent(s.Author) {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b forge.CommandComment) int { return a.Compare(&b) })
	return all
}

// ClaimCommand takes a command for this supervisor, and can be repeated. Of all supervisors that try, one gets nil and
// the others get forge.ErrTaken. ClaimCommand re-reads the comment: it returns forge.ErrNotFound when the comment was
// deleted or edited, and forge.ErrForbidden when its author no longer has write access.
func (c *Client) ClaimCommand(ctx context.Context, s forge.CommandComment) (err error) {
	defer wrap(&err, "take the command of %s on %s", s.Author, s.Ref)
	ctx = withSlots(ctx)
	all, _, err := c.comments(s.Ref, s.At).all(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(in *gitea.Comment) bool {
		now, ok := saidIn(s.Repo, in)
		return ok && now.ID == s.ID && now.Author == s.Author && now.Ref == s.Ref && now.Command.Equal(s.Command)
	}) {
		return fmt.Errorf("%w: the comment was deleted or edited", forge.ErrNotFound)
	}
	may, err := c.MayWrite(ctx, s.Repo, s.Author)
	if err == nil && !may {
		err = fmt.Errorf("%w: %s may not write to %s", forge.ErrForbidden, s.Author, s.Repo)
	}
	if err != nil || c.refs == nil {
		return err
	}
	return c.takeComment(ctx, s)
}

// Confirmed reports whether the author of a command gave its comment a thumbs-up after the supervisor asked for that,
// in the comment with the command's ConfirmKey. The forge lets nobody react in another account's name. The reaction is
// of a later second than the question, and that of a later one than any edit that does not show: so the author saw the
// command as it is.
func (c *Client) Confirmed(ctx context.Context, s forge.CommandComment) (confirmed bool, err error) {
	defer wrap(&err, "read the reactions to the command of %s on %s", s.Author, s.Ref)
	ctx = withSlots(ctx)
	owner, name := owner(s.Repo)
	g, x := c.sdk(ctx)
	reactions, _, err := g.GetIssueCommentReactions(owner, name, s.ID)
	reactions, err = entries(x, reactions, err)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(reactions, func(one *gitea.Reaction) bool {
		return one != nil && one.Reaction == "+1" && loginOf(one.User) == s.Author
	})
	if i < 0 {
		return false, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return false, err
	}
	all, _, err := c.comments(s.Ref, s.At).all(ctx)
	return slices.ContainsFunc(all, func(in *gitea.Comment) bool {
		return in != nil && loginOf(in.Poster) == me && !isEdited(in) && keyOf(in.Body) == s.ConfirmKey() &&
			in.Created.After(s.At) && reactions[i].Created.After(in.Created)
	}), err
}

// Supervisors that share a repository use one ref to agree on which of them carries out a command. The ref points to a
// commit that lists the taken comments. A push that adds a comment names the commit that was read before, so that only
// one of several concurrent pushes succeeds.
const (
	takenRef = "refs/disinto/heard"
	// maxTaken is how many comments the list holds; it holds the newest. A comment older than all in a full list counts
	// as taken.
	maxTaken = 500
	// takeTries is how often a command is tried while other supervisors add comments to the list.
	takeTries = 5
)

// takenBy maps the ID of each taken comment to the instance of the supervisor that took it.
type takenBy map[int64]string

// has reports whether a comment was taken, and by which instance; by is empty if the comment has fallen out of the
// list.
func (t takenBy) has(id int64) (by string, taken bool) {
	if by, taken = t[id]; taken {
		return by, true
	}
	return "", len(t) >= maxTaken && id < slices.Min(slices.Collect(maps.Keys(t)))
}

func (c *Client) takeComment(ctx context.Context, s forge.CommandComment) error {
	for range takeTries {
		before, all, err := c.readTaken(ctx, s.Repo)
		if err != nil {
			return err
		}
		switch by, taken := all.has(s.ID); {
		case taken && by == c.refs.Instance(): // the answer to our push was lost, or we died before we carried it out
			return nil
		case taken:
			return fmt.Errorf("%w: another supervisor has it", forge.ErrTaken)
		}
		all[s.ID] = c.refs.Instance()
		made := takenCommit(all)
		err = c.push(ctx, s.Repo, move{takenRef, before, made.id()}, made, emptyTree)
		refused, isRefusal := errors.AsType[*refusedMove](err)
		if err == nil || !isRefusal || refused.declined() {
			return err
		}
	}
	return fmt.Errorf("%w: other supervisors keep taking commands at the same time", forge.ErrUnavailable)
}

// takenCommit makes the commit of a list of comments; it lists at most maxTaken, the newest.
func takenCommit(all takenBy) object {
	ids := slices.Sorted(maps.Keys(all))
	var text strings.Builder
	text.WriteString("commands that were taken\n\n")
	for _, id := range ids[max(0, len(ids)-maxTaken):] {
		fmt.Fprintf(&text, "comment: %d %s\n", id, all[id])
	}
	return newCommit(time.Now(), text.String())
}

// readTaken returns the commit at the ref, or noObject if there is none, and the comments that it lists.
func (c *Client) readTaken(ctx context.Context, repo string) (commit string, all takenBy, err error) {
	commit, err = c.refAt(ctx, repo, takenRef)
	if err != nil {
		return "", nil, err
	}
	if all = (takenBy{}); commit == "" {
		return noObject, all, nil
	}
	in, err := c.readCommit(ctx, repo, commit)
	if err != nil {
		return "", nil, err
	}
	if in == nil || in.RepoCommit == nil {
		return "", nil, fmt.Errorf("%w: it does not show the commit %.10s", forge.ErrUnavailable, commit)
	}
	for line := range strings.Lines(in.RepoCommit.Message) {
		said, isComment := strings.CutPrefix(strings.TrimSpace(line), "comment: ")
		number, instance, _ := strings.Cut(said, " ")
		if id, err := strconv.ParseInt(number, 10, 64); isComment && err == nil && len(all) < maxTaken {
			all[id] = oneLine(instance)
		}
	}
	return commit, all, nil
}
