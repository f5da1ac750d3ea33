package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// A claim is a ref in the item's repository, refs/disinto/claims/N, to a commit that names the holder. Creating a ref
// that must not exist is the only request that a forge grants to exactly one of several concurrent clients. Label and
// assignee show the claim to people. The ref is written first and removed last.
//
// A supervisor that died would hold its claims for ever. When it starts again, it recognises its claims by the
// instance id and takes them back. Another supervisor can take over a claim if one of these is true:
//
//   - The claim has expired: it says how long its session can last, see [Claims.Longest]. Every account that may write
//     can make one, so we believe it for twice the longer of a day and our own longest session, from when we first saw
//     its commit. A session that begins moves the ref to another commit.
//   - The claim was never completed, or was released except for the ref: the item has neither in-progress nor an agent,
//     and we have seen the same commit at the ref for five minutes.

const (
	claimPrefix = "refs/disinto/claims/"
	// clockSlack is how far the clocks of two supervisors can differ.
	clockSlack = 10 * time.Minute
	// unfinishedFor is how long an incomplete claim is respected. A claim makes all its requests within a minute.
	unfinishedFor = 5 * time.Minute
	// claimTries is how often a claim is tried while other supervisors release or take over the same claim.
	claimTries = 3
)

// Claims describes this supervisor in its claims. All fields are required.
type Claims struct {
	// Instance returns the id of the state directory, which is also the prefix of its run ids; "" until it is known.
	Instance func() string
	// Boot identifies this run of the supervisor, which began at Since, among all with the same instance: see twin.go.
	Boot  string
	Since time.Time
	// Host is the machine's name, shown to people.
	Host string
	// Longest returns how long a session can last. A claim expires after that time plus ten minutes.
	Longest func() time.Duration
}

// claim is a claim made by this process, complete or not.
type claim struct {
	run    string
	commit string // "" if claims have no refs
}

// holder is the supervisor that holds a claim, as named in the claim's commit.
type holder struct {
	commit, instance, boot, run, agent, host string

	made  time.Time
	begun string // where its session runs, if an engine started the session; see Begin
	until time.Time
}

// sighting is the commit of a ref, and when we first saw it there.
type sighting struct {
	commit string
	at     time.Time
}

func claimRef(number int64) string { return claimPrefix + strconv.FormatInt(number, 10) }

// claimCommit makes the commit of a claim. The run id makes the commit unique.
func (c *Client) claimCommit(ref forge.Ref, login, run string) object {
	now := time.Now()
	until := now.Add(c.refs.Longest()).UTC().Format(time.RFC3339)
	return newCommit(now, fmt.Sprintf(
		"claim %s for %s\n\ninstance: %s\nrun: %s\nagent: %[2]s\nhost: %[5]s\nuntil: %[6]s\nboot: %[7]s\nmade: %[8]s\n",
		ref.Short(), login, c.refs.Instance(), run, oneLine(c.refs.Host), until, c.refs.Boot,
		now.UTC().Format(time.RFC3339Nano)))
}

// holderOf reads the holder from a claim's commit. A claim without an until line expires after a day.
func holderOf(in *gitea.Commit) holder {
	h := holder{commit: in.SHA, until: in.Created.Add(24 * time.Hour)}
	if in.RepoCommit == nil {
		return h
	}
	for line := range strings.Lines(in.RepoCommit.Message) {
		key, value, _ := strings.Cut(line, ":")
		value = oneLine(value)
		switch key {
		case "instance":
			h.instance = value
		case "boot":
			h.boot = value
		case "made":
			h.made, _ = time.Parse(time.RFC3339Nano, value) // zero: no twin's
		case "run":
			h.run = value
		case "agent":
			h.agent = value
		case "host":
			h.host = value
		case beginKey:
			h.begun = value
		case "until":
			if t, err := time.Parse(time.RFC3339, value); err == nil {
				h.until = t
			}
		}
	}
	return h
}

// String describes the holder for people.
func (h *holder) String() string {
	if h.agent == "" || h.host == "" {
		return "another supervisor"
	}
	return h.agent + " on " + h.host
}

// foreign reports whether the claim belongs to another supervisor and has not expired.
func (c *Client) foreign(h *holder) bool {
	return h != nil && (h.instance == "" || h.instance != c.refs.Instance() || c.isTwin(h)) &&
		time.Now().Before(h.until.Add(clockSlack))
}

// holder reads the holder of an item's claim; nil when the item has no claim.
func (c *Client) holder(ctx context.Context, ref forge.Ref) (*holder, error) {
	all, err := c.listClaims(ctx, ref.Repo, claimRef(ref.Number)) // also of items whose number begins with these digits
	if err != nil || all[ref.Number] == "" {
		return nil, err
	}
	return c.readHolder(ctx, ref, all[ref.Number])
}

// listClaims returns the commits of the claims whose ref begins with a prefix, by item number.
func (c *Client) listClaims(ctx context.Context, repo, prefix string) (map[int64]string, error) {
	refs, err := c.listRefs(ctx, repo, prefix)
	if err != nil || refs == nil {
		return nil, err
	}
	all := map[int64]string{}
	for _, one := range refs {
		if one == nil || one.Object == nil {
			continue
		}
		number, isClaim := strings.CutPrefix(one.Ref, claimPrefix)
		if n, err := strconv.ParseInt(number, 10, 64); isClaim && err == nil {
			all[n] = one.Object.SHA
		}
	}
	return all, nil
}

// listRefs returns the refs that begin with a prefix; nil when there are none.
func (c *Client) listRefs(ctx context.Context, repo, prefix string) ([]*gitea.Reference, error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	refs, _, err := g.GetRepoRefs(owner, name, strings.TrimSuffix(prefix, "/"))
	refs, err = entries(x, refs, err)
	return refs, unless(err, forge.ErrNotFound)
}

// readCommit reads the commit of a claim; nil when the forge does not have it.
func (c *Client) readCommit(ctx context.Context, repo, commit string) (*gitea.Commit, error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetSingleCommit(owner, name, commit)
	err = x.end(err)
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case in.CommitMeta == nil:
		return nil, fmt.Errorf("%w: it shows the commit %.10s without its name", forge.ErrUnavailable, commit)
	}
	return in, nil
}

// readHolder reads the holder from the commit at the ref of a claim; nil when the forge does not have the commit.
func (c *Client) readHolder(ctx context.Context, ref forge.Ref, commit string) (*holder, error) {
	in, err := c.readCommit(ctx, ref.Repo, commit)
	if in == nil {
		return nil, err
	}
	h := holderOf(in)
	if most := c.firstSeen(ref, commit).Add(2 * max(24*time.Hour, c.refs.Longest())); h.until.After(most) {
		h.until = most
	}
	c.notice(&h)
	return &h, nil
}

// firstSeen returns when we first saw a commit at the ref of a claim, by our clock.
func (c *Client) firstSeen(ref forge.Ref, commit string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[ref].commit != commit {
		c.seen[ref] = sighting{commit, time.Now()}
	}
	return c.seen[ref].at
}

// takeRef creates the ref of a claim, or takes the ref over when its claim has expired or is incomplete. in is the item
// as read just before.
func (c *Client) takeRef(ctx context.Context, ref forge.Ref, in *gitea.Issue, login, run string) error {
	if c.refs == nil {
		c.noteClaim(ref, claim{run: run})
		return nil
	}
	if err := c.checkTwin(ctx, ref.Repo); err != nil {
		return err
	}
	made := c.claimCommit(ref, login, run)
	c.noteClaim(ref, claim{run, made.id()})
	before := noObject
	for range claimTries {
		err := c.push(ctx, ref.Repo, move{claimRef(ref.Number), before, made.id()}, made, emptyTree)
		if err == nil {
			c.mu.Lock()
			delete(c.sighted, ref)
			c.mu.Unlock()
			return nil
		}
		refused, ok := errors.AsType[*refusedMove](err)
		if !ok {
			return err
		}
		if refused.declined() {
			return fmt.Errorf(`%w; give the token the scope write:repository, or set [forge] claim = "single"`, err)
		}
		held, err := c.holder(ctx, ref)
		switch {
		case err != nil:
			return err
		case held == nil: // released in the meantime
			before = noObject
		case held.run == run && held.begun != "":
			c.noteClaim(ref, held.claim()) // our own commit was not pushed
			return fmt.Errorf("%w: its session has begun", forge.ErrTaken)
		case held.run == run: // ours: the answer to our push was lost
			c.noteClaim(ref, claim{run, held.commit})
			return nil
		case c.foreign(held) && !c.unfinished(ref, in, held.commit):
			c.forgetClaim(ref)
			return fmt.Errorf("%w: it is claimed by %s", forge.ErrTaken, held)
		default:
			before = held.commit
		}
	}
	return fmt.Errorf("%w: other supervisors keep claiming and releasing it", forge.ErrUnavailable)
}

// unfinished reports whether a claim has long consisted of only a ref, without label and agent.
func (c *Client) unfinished(ref forge.Ref, in *gitea.Issue, commit string) bool {
	if hasLabel(in, forge.LabelInProgress) || slices.ContainsFunc(logins(in.Assignees), c.isAgent) {
		return false
	}
	return c.seenLong(ref, commit)
}

// seenLong reports whether the ref of a claim has pointed to the same commit for unfinishedFor, by our clock.
func (c *Client) seenLong(ref forge.Ref, commit string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.sighted[ref]
	if seen.commit != commit {
		c.sighted[ref] = sighting{commit, time.Now()}
		return false
	}
	return time.Since(seen.at) >= unfinishedFor
}

func (c *Client) noteClaim(ref forge.Ref, of claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims[ref] = of
}

// ClaimCommit returns the commit at the ref of our claim of an item; "" if we did not claim it, or claims have no refs.
func (c *Client) ClaimCommit(ref forge.Ref) (commit string) {
	ref = c.canonical(ref)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims[ref].commit
}

// forgetClaim removes our record of a claim and returns it.
func (c *Client) forgetClaim(ref forge.Ref) claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.claims[ref]
	delete(c.claims, ref)
	return was
}

// mayRelease returns the claim that Release has to remove, without a commit when there is none. It returns
// forge.ErrTaken when another supervisor holds the item, because that supervisor's agents can use the same accounts as
// ours.
func (c *Client) mayRelease(ctx context.Context, ref forge.Ref) (of claim, err error) {
	if was := c.forgetClaim(ref); c.refs == nil || was.commit != "" {
		return was, nil
	}
	held, err := c.holder(ctx, ref)
	if err != nil || held == nil {
		return claim{}, err
	}
	if c.foreign(held) {
		return claim{}, fmt.Errorf("%w: it is claimed by %s", forge.ErrTaken, held)
	}
	return held.claim(), nil
}

// claim returns the holder's claim.
func (h *holder) claim() claim { return claim{h.run, h.commit} }

// dropRef deletes the ref of a claim if it still points to our commit, or to the commit with which the claim's session
// began.
func (c *Client) dropRef(ctx context.Context, ref forge.Ref, of claim) error {
	if of.commit == "" {
		return nil
	}
	err := c.push(ctx, ref.Repo, move{claimRef(ref.Number), of.commit, noObject})
	if _, refused := errors.AsType[*refusedMove](err); !refused {
		return err
	}
	held, unread := c.holder(ctx, ref)
	switch {
	case unread != nil:
		return unread
	case held == nil:
		return nil
	case held.commit == of.commit:
		return err
	case held.begun == "" || held.run != of.run || held.instance != c.refs.Instance():
		return nil
	}
	return c.push(ctx, ref.Repo, move{claimRef(ref.Number), held.commit, noObject})
}

// Free deletes the ref of a claim, whichever supervisor made it, and returns the holder's description; "" when there
// was not a claim. An operator uses it when the holder is gone for good. Label and assignee stay.
func (c *Client) Free(ctx context.Context, ref forge.Ref) (was string, err error) {
	ref = c.canonical(ref)
	if c.refs == nil {
		return "", nil
	}
	held, err := c.holder(ctx, ref)
	if err == nil && held != nil {
		was = held.String()
		err = c.dropRef(ctx, ref, held.claim())
	}
	if err != nil {
		return "", fmt.Errorf("cannot free %s: %w", ref, err)
	}
	c.forgetClaim(ref)
	return was, nil
}

// probeClaims pushes the deletion of a claim that does not exist. The push changes nothing, and the forge applies the
// same checks to it as to a claim.
func (c *Client) probeClaims(ctx context.Context, repo string) error {
	if c.refs == nil {
		return nil
	}
	none := newCommit(time.Now(), "no such claim\n").id()
	err := c.push(ctx, repo, move{claimRef(0), none, noObject})
	if err == nil {
		return nil
	}
	if isOutage(err) {
		return fmt.Errorf("cannot claim in %s: %w", repo, err)
	}
	return fmt.Errorf(`cannot claim in %s: %w; give the token the scope write:repository, `+
		`or set [forge] claim = "single" if no other supervisor works there`, repo, err)
}
