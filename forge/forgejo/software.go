package forgejo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Software names the program behind a forge.
type Software struct {
	Name    string // Forgejo or Gitea
	Version string // as the forge reports it
	// Without lists what does not work with this software, one sentence each.
	Without []string
}

// software lists the forges that pass our test suites, each with the oldest version that does.
var software = []struct {
	Software
	major, minor int
}{
	{Software{Name: "Forgejo"}, 7, 0}, // since 7 its version differs from Gitea's: 10.0.0+gitea-1.22.0
	{Software{Name: "Gitea", Without: []string{
		"a question that somebody deleted is asked again only after the next change of its issue, because Gitea does not " +
			"report the deletion of a comment as a change",
	}}, 1, 23},
}

// softwareOf derives the software from its version, and rejects a version that is too old.
func softwareOf(url, version string) (Software, error) {
	major, minor := numbers(version)
	for _, row := range software {
		if major > row.major || major == row.major && minor >= row.minor {
			s := row.Software
			s.Version = oneLine(version)
			return s, nil
		}
	}
	return Software{}, fmt.Errorf(
		"cannot work with the forge at %s: it is version %q; update it to Forgejo 7 or Gitea 1.23, or later",
		url, oneLine(version))
}

// numbers returns 10 and 0 for 10.0.0+gitea-1.22.0, and 0 for a part that is not a number.
func numbers(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// Software returns which forge this is. Every error says what to do; an unsupported forge is an error too.
func (c *Client) Software(ctx context.Context) (Software, error) {
	g, x := c.sdk(ctx)
	version, _, err := g.ServerVersion()
	err = x.end(err)
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return Software{}, fmt.Errorf("cannot find a forge at %s: %w; check [forge] url", c.url, err)
	case errors.Is(err, forge.ErrForbidden):
		return Software{}, explainToken(err)
	case err != nil:
		return Software{}, fmt.Errorf("cannot reach the forge at %s: %w", c.url, err)
	}
	return softwareOf(c.url, version)
}
