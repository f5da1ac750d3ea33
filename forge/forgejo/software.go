package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Software names the program behind a forge.
type Software struct {
	Name    string // Forgejo or Gitea
	Version string // as the forge says it
	// Without lists what does not work there, a sentence each.
	Without []string
}

// software are the forges that pass our suites, each with the oldest version that does.
var software = []struct {
	Software
	major, minor int
}{
	{Software{Name: "Forgejo"}, 7, 0}, // it counts by itself since then: 10.0.0+gitea-1.22.0
	{Software{Name: "Gitea"}, 1, 23},
}

// softwareOf tells a forge by its version, and refuses one that is too old.
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

// numbers are 10 and 0 for 10.0.0+gitea-1.22.0, and 0 for what are none.
func numbers(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// Software asks which forge this is. An error says what to do, also when it is one that we do not work with.
func (c *Client) Software(ctx context.Context) (Software, error) {
	said, _, err := do[struct{ Version string }](ctx, c, ask{http.MethodGet, "/version", nil})
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return Software{}, fmt.Errorf("cannot find a forge at %s: %w; check [forge] url", c.url, err)
	case errors.Is(err, forge.ErrForbidden):
		return Software{}, explainToken(err)
	case err != nil:
		return Software{}, fmt.Errorf("cannot reach the forge at %s: %w", c.url, err)
	}
	return softwareOf(c.url, said.Version)
}
