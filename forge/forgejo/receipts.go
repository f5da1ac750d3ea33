package forgejo

import (
	"context"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// ReceiptComments returns the texts of our account's comments that show receipts, by pull request, in all repositories,
// as far as they have changed since a time; also of those that another account edited.
func (c *Client) ReceiptComments(ctx context.Context, since time.Time) (_ map[forge.Ref]string, err error) {
	defer wrap(&err, "read the comments with receipts")
	ctx = withSlots(ctx)
	me, err := c.me(ctx)
	if err != nil {
		return nil, err
	}
	texts := make(map[forge.Ref]string)
	for _, r := range c.repos {
		l := c.allComments(r.name, since)
		l.slim = func(in *gitea.Comment) {
			if loginOf(in.Poster) != me || !strings.HasPrefix(keyOf(in.Body), forge.ReceiptsKey) {
				in.Body = ""
			}
		}
		all, _, err := l.all(ctx)
		if err != nil {
			return nil, err
		}
		for _, in := range all {
			if in != nil && in.Body != "" {
				number := max(numberIn(in.IssueURL), numberIn(in.PRURL))
				texts[forge.Ref{Repo: r.name, Number: number}] += in.Body + "\n"
			}
		}
	}
	return texts, nil
}
