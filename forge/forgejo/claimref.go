package forgejo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// A claim is a ref of the item's repository, refs/disinto/claims/N, to a commit of its own that says whose it is.
// Making a ref that must not be there is the one thing a forge does for exactly one of several who try at once; labels
// and assignees are what people see of it. The ref comes first and goes last.
//
// What holds a claim for ever is a supervisor that died. Its own next run takes the claim back, by the instance id.
// Others may take it when one of these holds:
//
//   - its time is up: a claim says how long a session can last at most, see [Claims.Longest];
//   - it was never finished, or given back up to the ref: the item carries no in-progress, no agent is assigned, and we
//     have seen the same commit there for five minutes.

const (
	claimPrefix = "refs/disinto/claims/"
	// clockSlack is how far the clocks of two supervisors may be apart.
	clockSlack = 10 * time.Minute
	// unfinishedFor is how long an unfinished claim is left alone: a claim's requests all have to end within a minute.
	unfinishedFor = 5 * time.Minute
	// claimTries is how often a claim is tried that others give back, or take over, at the same time.
	claimTries = 3
)

// Claims are what a supervisor says of itself when it claims something, so that others let it be. All fields are
// required.
type Claims struct {
	// Instance is the id of the state directory, with which each of its run ids begins. It may be "" until it is known.
	Instance func() string
	// Host is the machine's name, for people.
	Host string
	// Longest is how long a session may last. A claim that is older than that, and ten minutes, is nobody's any more.
	Longest func() time.Duration
}

// claim is one that this process wrote or began to write.
type claim struct {
	run    string
	commit string // "" where claims are no refs
}

// holder is who holds a claim, as its commit says.
type holder struct {
	commit, instance, run, agent, host string
	until                              time.Time
}

// sighting is when a commit was first seen at a ref.
type sighting struct {
	commit string
	at     time.Time
}

func claimRef(number int64) string { return claimPrefix + strconv.FormatInt(number, 10) }

// claimCommit is the commit of a claim. No other is like it, because no other run has that id.
func (c *Client) claimCommit(ref forge.Ref, login, run string) object {
	now := time.Now()
	return newCommit(now, fmt.Sprintf("claim %s for %s\n\ninstance: %s\nrun: %s\nagent: %[2]s\nhost: %[5]s\nuntil: %[6]s\n",
		ref.Short(), login, c.refs.Instance(), run, oneLine(c.refs.Host), now.Add(c.refs.Longest()).UTC().Format(time.RFC3339)))
}

// holderOf reads the commit of a claim. A commit that does not say how long it counts is taken to do so for a day.
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
		case "run":
			h.run = value
		case "agent":
			h.agent = value
		case "host":
			h.host = value
		case "until":
			if t, err := time.Parse(time.RFC3339, value); err == nil {
				h.until = t
			}
		}
	}
	return h
}

// String names the holder to people.
func (h *holder) String() string {
	if h.agent == "" || h.host == "" {
		return "another supervisor"
	}
	return h.agent + " on " + h.host
}

// foreign reports whether a claim is another supervisor's, and counts.
func (c *Client) foreign(h *holder) bool {
	return h != nil && (h.instance == "" || h.instance != c.refs.Instance()) && time.Now().Before(h.until.Add(clockSlack))
}

// holder reads who holds the claim of an item; nil when nobody does.
func (c *Client) holder(ctx context.Context, ref forge.Ref) (*holder, error) {
	all, err := c.listClaims(ctx, ref.Repo, claimRef(ref.Number)) // also those whose number begins like this one
	if err != nil || all[ref.Number] == "" {
		return nil, err
	}
	return c.readHolder(ctx, ref.Repo, all[ref.Number])
}

// listClaims returns the commits of the claims whose ref begins with a prefix, by number.
func (c *Client) listClaims(ctx context.Context, repo, prefix string) (map[int64]string, error) {
	refs, _, err := do[references](ctx, c, ask{http.MethodGet, at(repo, "/git/%s", strings.TrimSuffix(prefix, "/")), nil})
	if errors.Is(err, forge.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
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

// references are refs as the forge lists them. Old versions answer with the ref itself where there is one of exactly
// the name.
type references []*gitea.Reference

func (r *references) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		*r = references{new(gitea.Reference)}
		return json.Unmarshal(text, (*r)[0])
	}
	return json.Unmarshal(text, (*[]*gitea.Reference)(r))
}

// readHolder reads a commit of a claim; nil when it is gone meanwhile.
func (c *Client) readHolder(ctx context.Context, repo, commit string) (*holder, error) {
	in, _, err := do[*gitea.Commit](ctx, c, ask{http.MethodGet, at(repo, "/git/commits/%s", commit), nil})
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case in.CommitMeta == nil:
		return nil, fmt.Errorf("%w: it shows the commit %.10s without its name", forge.ErrUnavailable, commit)
	}
	h := holderOf(in)
	return &h, nil
}

// takeRef makes the ref of a claim, or takes it over from a supervisor that is gone. in is the item as it was just now.
func (c *Client) takeRef(ctx context.Context, ref forge.Ref, in *gitea.Issue, login, run string) error {
	if c.refs == nil {
		c.noteClaim(ref, claim{run: run})
		return nil
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
		case held == nil: // given back meanwhile
			before = noObject
		case held.run == run: // our own, of a push whose answer was lost
			c.noteClaim(ref, claim{run, held.commit})
			return nil
		case c.foreign(held) && !c.unfinished(ref, in, held.commit):
			c.forgetClaim(ref)
			return fmt.Errorf("%w: it is claimed by %s", forge.ErrTaken, held)
		default:
			before = held.commit
		}
	}
	return fmt.Errorf("%w: its claim changes hands all the time", forge.ErrUnavailable)
}

// unfinished reports whether a claim never came to more than its ref, or came down to it, and nobody is at that any
// more.
func (c *Client) unfinished(ref forge.Ref, in *gitea.Issue, commit string) bool {
	if hasLabel(in, forge.LabelInProgress) || slices.ContainsFunc(logins(in.Assignees), c.isAgent) {
		return false
	}
	return c.seenLong(ref, commit)
}

// seenLong reports whether we have long seen the same commit at the ref of a claim. Only our own clock counts.
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

// forgetClaim returns what we knew of our claim.
func (c *Client) forgetClaim(ref forge.Ref) claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.claims[ref]
	delete(c.claims, ref)
	return was
}

// mayRelease finds the commit of a claim that is to be given back; "" when there is none. Another supervisor's claim is
// refused with forge.ErrTaken: its agents may have the same accounts as ours.
func (c *Client) mayRelease(ctx context.Context, ref forge.Ref) (commit string, err error) {
	if was := c.forgetClaim(ref); c.refs == nil || was.commit != "" {
		return was.commit, nil
	}
	held, err := c.holder(ctx, ref)
	if err != nil || held == nil {
		return "", err
	}
	if c.foreign(held) {
		return "", fmt.Errorf("%w: it is claimed by %s", forge.ErrTaken, held)
	}
	return held.commit, nil
}

// dropRef gives a claim back. One that is not there any more, or is another's by now, is none of ours.
func (c *Client) dropRef(ctx context.Context, ref forge.Ref, commit string) error {
	if commit == "" {
		return nil
	}
	err := c.push(ctx, ref.Repo, move{claimRef(ref.Number), commit, noObject})
	if _, refused := errors.AsType[*refusedMove](err); !refused {
		return err
	}
	all, unread := c.listClaims(ctx, ref.Repo, claimRef(ref.Number))
	if unread != nil {
		return unread
	}
	if all[ref.Number] == commit {
		return err
	}
	return nil
}

// Free takes away the ref of a claim, whoever holds it, and says who that was; "" for nobody. It is for a person who
// knows that the holder is gone. Label and assignee stay as they are.
func (c *Client) Free(ctx context.Context, ref forge.Ref) (was string, err error) {
	ref = c.canonical(ref)
	if c.refs == nil {
		return "", nil
	}
	held, err := c.holder(ctx, ref)
	if err == nil && held != nil {
		was = held.String()
		err = c.dropRef(ctx, ref, held.commit)
	}
	if err != nil {
		return "", fmt.Errorf("cannot free %s: %w", ref, err)
	}
	c.forgetClaim(ref)
	return was, nil
}

// probeClaims asks the forge to delete a claim that there is not, at a commit that it does not have. That changes
// nothing, and passes every check that a claim has to pass.
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
	return fmt.Errorf(`cannot claim in %s: %w; give the token the scope write:repository, or set [forge] claim = "single" if no other supervisor works there`, repo, err)
}
