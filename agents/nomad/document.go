package nomad

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// documentTime is how long an ended allocation's document is requested while no server can reach its node. A server
// does not know its allocations for the first 4 s after its start.
const documentTime = 15 * time.Second

// readDocument reads the document of session-run, and reports a usage that has grown, and another phase. For an ended
// allocation it retries until the document contains the outcome.
func (s *session) readDocument(calls context.Context, a *allocation) {
	for try := 0; ; try++ {
		d, err := s.client.getDocument(calls, a.ID)
		if err == nil {
			if s.spent != nil && (s.document == nil || d.Usage != s.document.Usage) && d.Usage != (agents.Usage{}) {
				s.spent(d.Usage)
			}
			if s.doing != nil && (s.document == nil || d.Doing != s.document.Doing) {
				s.doing(d.Doing)
			}
			s.document = d
		}
		late := isLate(err)
		if a.live() || err == nil && d.Outcome != nil || isRefused(err) && !late || calls.Err() != nil {
			return
		}
		if s.unread.IsZero() {
			s.unread = time.Now()
		}
		if try >= 3 && (!late || time.Since(s.unread) >= cmp.Or(s.exec.detour, documentTime)) {
			return
		}
		time.Sleep(startTick)
	}
}

// getDocument reads a document from an allocation's node.
func (c *client) getDocument(ctx context.Context, alloc string) (*document, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	query := url.Values{"path": {taskName + "/local/" + documentFile}}
	resp, err := c.sendToNode(ctx, "cat", alloc, query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := readBounded(resp.Body, maxDocument)
	if err != nil {
		return nil, err
	}
	return parseDocument(text)
}
