package forgejo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// A copied state directory makes two supervisors with one instance id, and each would release the other's claims as its
// own. So a claim also names the boot, one run of a supervisor. A claim of our instance by another boot that was made
// after our start is a twin's: what our earlier runs claimed is older. Whoever finds its twin puts a ref there for it,
// which each supervisor reads before it claims, so that both know.

// twinPrefix is followed by an instance id. The ref points to a claim's commit of the supervisor that found its twin.
const twinPrefix = "refs/disinto/twins/"

// sharedFor is how long another factory counts as working with our accounts after we last read a claim of it.
const sharedFor = 24 * time.Hour

// twin is another supervisor with our instance id.
type twin struct {
	forge.Peer
	instance string
	told     bool // it was told of us
}

// isTwin reports whether another supervisor with our instance id made a claim after our start.
func (c *Client) isTwin(h *holder) bool {
	return h.instance != "" && h.instance == c.refs.Instance() && h.boot != "" && h.boot != c.refs.Boot &&
		h.made.After(c.refs.Since)
}

// notice remembers what a claim that was read says about other supervisors.
func (c *Client) notice(h *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch us := c.refs.Instance(); {
	case c.isTwin(h):
		if c.twin.instance != us {
			c.twin = twin{instance: us}
		}
		if h.made.After(c.twin.At) {
			c.twin.Peer = forge.Peer{Who: h.String(), At: h.made}
		}
	case h.instance != "" && h.instance != us && c.ours(h.agent):
		c.sharer = forge.Peer{Who: h.String(), At: time.Now()}
	}
}

// peers returns our twin, and the factory that works with our accounts; zero values if there are none. mu must be held.
func (c *Client) peers() (other, sharer forge.Peer) {
	if c.refs != nil && c.twin.instance == c.refs.Instance() {
		other = c.twin.Peer
	}
	if time.Since(c.sharer.At) < sharedFor {
		sharer = c.sharer
	}
	return other, sharer
}

// tellTwin lets our twin know of us, in every repository, once.
func (c *Client) tellTwin(ctx context.Context) (err error) {
	c.mu.Lock()
	other, _ := c.peers()
	due := !other.At.IsZero() && !c.twin.told
	c.mu.Unlock()
	if !due {
		return nil
	}
	name, made := twinPrefix+c.refs.Instance(), c.claimCommit(forge.Ref{}, "a twin", "twin")
	for _, r := range c.repos {
		at, failed := c.refAt(ctx, r.name, name)
		if failed == nil {
			failed = c.push(ctx, r.name, move{name, cmp.Or(at, noObject), made.id()}, made, emptyTree)
		}
		err = errors.Join(err, failed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.twin.told = err == nil
	return err
}

// checkTwin returns forge.ErrTaken if our twin has told us of itself, so that nothing is claimed.
func (c *Client) checkTwin(ctx context.Context, repo string) error {
	if c.refs == nil {
		return nil
	}
	at, err := c.refAt(ctx, repo, twinPrefix+c.refs.Instance())
	if err != nil || at == "" {
		return err
	}
	in, err := c.readCommit(ctx, repo, at)
	if err != nil || in == nil {
		return err
	}
	h := holderOf(in)
	if c.notice(&h); !c.isTwin(&h) {
		return nil
	}
	return fmt.Errorf("%w: another supervisor with a copy of our state directory works, on %s", forge.ErrTaken, h.host)
}
