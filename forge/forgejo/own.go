package forgejo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// This file has the requests that the SDK cannot make for us, each with its reason. They use the HTTP client that the
// SDK uses, and with it the same transport.

// merge merges a pull request. The SDK drops the forge's reason for a refusal, which the person who has to act needs.
func (c *connection) merge(ctx context.Context, ref forge.Ref, form gitea.MergePullRequestOption) error {
	x := c.begin(ctx)
	x.limit = mergeTime
	_, err := x.sendJSON(http.MethodPost, api+at(ref.Repo, "/pulls/%d/merge", ref.Number), form)
	return x.wrote(err)
}

// depend makes an issue wait for another one. The SDK sends only the number of the other issue; Forgejo requires its
// repository too.
func (c *connection) depend(ctx context.Context, ref, on forge.Ref) error {
	owner, name := owner(on.Repo)
	form := map[string]any{"owner": owner, "repo": name, "index": on.Number}
	return c.send(ctx, http.MethodPost, at(ref.Repo, "/issues/%d/dependencies", ref.Number), form, nil)
}

// label reads a label of a repository by its name. The SDK knows only ids here.
func (c *connection) label(ctx context.Context, repo, name string) (l gitea.Label, err error) {
	err = c.send(ctx, http.MethodGet, at(repo, "/labels/%s", url.PathEscape(name)), nil, &l)
	return l, err
}

// event is an entry of a timeline.
type event struct {
	ID      int64       `json:"id"`
	Type    string      `json:"type"`
	User    *gitea.User `json:"user"`
	Created time.Time   `json:"created_at"`
	// Label is the label that was changed; Body is then "1" if the label was added, and empty if it was removed.
	Label *gitea.Label `json:"label"`
	Body  string       `json:"body"`
	// RefIssue is the issue or pull request whose text mentions this one; nil for other events.
	RefIssue *gitea.Issue `json:"ref_issue"`
}

// events lists the timeline of an issue or pull request since a time. The SDK expects a list of labels in each entry;
// the forge sends one label.
func (c *connection) events(ref forge.Ref, since time.Time) list[event] {
	query := url.Values{}
	if !since.IsZero() {
		query.Set("since", since.Format(time.RFC3339))
	}
	id := func(e *event) int64 { return e.ID }
	return ownList(c, at(ref.Repo, "/issues/%d/timeline", ref.Number), query, id)
}

// commits lists the commits of a pull request. The SDK cannot leave out their statistics, signatures and files, for
// each of which the forge starts git.
func (c *connection) commits(ref forge.Ref) list[gitea.Commit] {
	query := url.Values{"stat": {"false"}, "verification": {"false"}, "files": {"false"}}
	return ownList[gitea.Commit](c, at(ref.Repo, "/pulls/%d/commits", ref.Number), query, nil)
}

// receivePack sends a push of git's protocol and returns the forge's report. The API has no request that moves a ref
// only if it is where we know it to be.
func (c *connection) receivePack(ctx context.Context, repo, login string, push []byte) (report []byte, err error) {
	x := c.begin(ctx)
	x.whole, x.longest, x.limit = true, maxRefusal, pushTime
	address := c.url + "/" + repo + ".git/git-receive-pack"
	req, err := http.NewRequestWithContext(x.context(), http.MethodPost, address, bytes.NewReader(push))
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	req.SetBasicAuth(login, c.token)
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	req.Header.Set("Accept", "application/x-git-receive-pack-result")
	_, err = x.do(req)
	report = x.answer
	return report, x.wrote(err)
}

// lfsType is the type of every request and answer of Git LFS that is not a file.
const lfsType = "application/vnd.git-lfs+json"

// batch asks where Git LFS has some files of a repository. It is no part of the API.
func (c *connection) batch(ctx context.Context, repo string, form, answer any) error {
	x := c.begin(ctx)
	x.whole = true
	body, err := json.Marshal(form)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	address := c.url + "/" + repo + ".git/info/lfs/objects/batch"
	req, err := http.NewRequestWithContext(x.context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	req.SetBasicAuth("token", c.token) // Git LFS knows no account for "Authorization: token"
	req.Header.Set("Content-Type", lfsType)
	req.Header.Set("Accept", lfsType)
	if _, err = x.do(req); err == nil && x.accepted() {
		err = json.Unmarshal(x.answer, answer)
	}
	return x.close(err)
}

// tokens lists the tokens of an account. The SDK manages only those of the account that signs in; an administrator's
// password also manages those of others.
func (c *connection) tokens(login string) list[forge.Token] {
	return ownList(c, tokensOf(login), url.Values{}, func(t *forge.Token) int64 { return t.ID })
}

// createToken creates a token for an account; tokens says why the SDK does not.
func (c *connection) createToken(ctx context.Context, login, name string, scopes []string) (text string, err error) {
	var made struct {
		Text string `json:"sha1"`
	}
	err = c.send(ctx, http.MethodPost, tokensOf(login), map[string]any{"name": name, "scopes": scopes}, &made)
	return made.Text, err
}

// deleteToken deletes a token of an account; tokens says why the SDK does not.
func (c *connection) deleteToken(ctx context.Context, login string, id int64) error {
	return c.send(ctx, http.MethodDelete, tokensOf(login)+"/"+strconv.FormatInt(id, 10), nil, nil)
}

func tokensOf(login string) string { return "/users/" + url.PathEscape(login) + "/tokens" }

// probeAccounts tries to create an account without a name, which changes nothing: forge.ErrForbidden unless we may
// create accounts. The SDK does not send a form without a name.
func (c *connection) probeAccounts(ctx context.Context) error {
	return c.send(ctx, http.MethodPost, "/admin/users", struct{}{}, nil)
}

// commitFiles changes files of a repository in one commit. The SDK changes one file per commit.
func (c *connection) commitFiles(ctx context.Context, repo string, form map[string]any) error {
	return c.send(ctx, http.MethodPost, at(repo, "/contents"), form, nil)
}

// combinedStatus reads the newest report of each check of a commit. The SDK takes an answer that it cannot decode, such
// as a login page, for a commit without checks.
func (c *connection) combinedStatus(ctx context.Context, repo, sha string) (all gitea.CombinedStatus, err error) {
	err = c.send(ctx, http.MethodGet, at(repo, "/commits/%s/status", sha), nil, &all)
	return all, err
}

// log reads the log of a job of the forge's CI, below the job's page: the API has no logs. An HTML answer, such as a
// sign-in page, is forge.ErrForbidden.
func (c *connection) log(ctx context.Context, repo, page string) (string, error) {
	x, path := c.begin(ctx), "/"+repo+page+"/logs"
	header, err := x.sendJSON(http.MethodGet, path, nil)
	text := string(x.answer)
	if err = x.wrote(err); err != nil {
		return "", err
	}
	if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
		return "", fmt.Errorf("GET %s: %w: a page for people, of type %q", path, forge.ErrForbidden, kind)
	}
	return text, nil
}

// ownList is newList for a list that the SDK cannot read.
func ownList[T any](c *connection, path string, query url.Values, id func(*T) int64) list[T] {
	l := list[T]{connection: c, id: id}
	l.page = func(ctx context.Context, o gitea.ListOptions) (all []*T, x *exchange, err error) {
		query := maps.Clone(query) // pages are read concurrently
		query.Set("page", strconv.Itoa(o.Page))
		query.Set("limit", strconv.Itoa(o.PageSize))
		x = c.begin(ctx)
		if _, err = x.sendJSON(http.MethodGet, api+path+"?"+query.Encode(), nil); err == nil && x.accepted() {
			all, err = decodeEach[T](x)
		}
		return all, x, x.close(err)
	}
	return l
}

// api is the path of the API below the forge's address.
const api = "/api/v1"

// send makes a request to a path of the API with in as JSON, and decodes the answer into out. Both can be nil.
func (c *connection) send(ctx context.Context, method, path string, in, out any) error {
	x := c.begin(ctx)
	_, err := x.sendJSON(method, api+path, in)
	if err == nil && x.accepted() && out != nil {
		err = json.Unmarshal(x.answer, out)
	}
	return x.close(err)
}

// sendJSON sends a request to a path below the forge's address. It returns the answer's headers.
func (x *exchange) sendJSON(method, path string, in any) (http.Header, error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(x.context(), method, x.c.url+path, &body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if x.c.token != "" {
		req.Header.Set("Authorization", "token "+x.c.token)
	} else if x.c.user != "" {
		req.SetBasicAuth(x.c.user, x.c.password)
	}
	return x.do(req)
}

// do sends a request and returns the answer's headers.
func (x *exchange) do(req *http.Request) (http.Header, error) {
	resp, err := x.c.http.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Header, resp.Body.Close()
}
