package forgejo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// shut is a transport to a forge that makes one repository look archived or renamed.
type shut struct {
	way      http.RoundTripper
	repo     string
	archived bool
	name     string // the new name; empty if the repository was not renamed
}

func (s *shut) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.archived && r.Method != http.MethodGet {
		status := http.StatusLocked
		if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			status = http.StatusForbidden
		}
		body := io.NopCloser(strings.NewReader(`{"message":"the repository is archived"}`))
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}, nil
	}
	resp, err := s.way.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/api/v1/repos/"+s.repo) {
		return resp, err
	}
	var in map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil {
		return nil, err
	}
	if in["archived"] = s.archived; s.name != "" {
		in["full_name"] = s.name
	}
	text, err := json.Marshal(in)
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, err
}

// TestRepositoryOff: a repository that is archived or renamed while we work refuses every account. The client reports
// that with advice, and not as a missing right of one account. Work continues once the repository is usable again.
func TestRepositoryOff(t *testing.T) {
	onLocal(t, func(w *world) {
		way := &shut{way: w.transport, repo: w.repo}
		c := w.client(func(o *Options) { o.HTTP = &http.Client{Transport: way} })
		n := w.file("one", "", "backlog")
		w.scan(c)
		for _, tt := range []struct {
			archived   bool
			name, want string
		}{
			{true, "", w.repo + " is archived: unarchive it, or take it out of [forge] repos"},
			{false, "new/name", w.repo + " is now new/name: change [forge] repos"},
		} {
			way.archived, way.name = tt.archived, tt.name
			if err := c.MayWork(w.Context(), w.tokens[w.dev], w.repo); !errors.Is(err, forge.ErrOff) || err.Error() != tt.want {
				w.Errorf("MayWork of an agent: got %v, want %s", err, tt.want)
			}
			if tt.archived {
				err := c.Claim(w.Context(), w.ref(n), w.dev, "run-1")
				if !errors.Is(err, forge.ErrOff) || errors.Is(err, forge.ErrForbidden) || !strings.Contains(err.Error(), tt.want) {
					w.Errorf("Claim: got %v, want %s", err, tt.want)
				}
			}
			for range 2 {
				f := w.scan(c)
				if r, _ := f.Repo(w.repo); r.Off != tt.want || !r.AsOf.IsZero() {
					w.Errorf("Off is %q, AsOf %s; want %q and zero", r.Off, r.AsOf, tt.want)
				}
			}
			way.archived, way.name = false, ""
			meanwhile := w.file("meanwhile", "", "backlog")
			f := w.scan(c)
			if r, _ := f.Repo(w.repo); r.Off != "" || r.AsOf.IsZero() || f.Issue(w.ref(meanwhile)) == nil {
				w.Errorf("afterwards: %+v, %v", r, f.Issue(w.ref(meanwhile)))
			}
			time.Sleep(time.Minute)
		}
		w.must(c.MayWork(w.Context(), w.tokens[w.dev], w.repo))
		w.must(c.Claim(w.Context(), w.ref(n), w.dev, "run-2"))
	})
}
