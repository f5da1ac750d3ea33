package forgejo

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

var mutationsEvery = flag.Int("mutations", 1000, "play one of so many mutations")

// TestMutations gives the client answers of the wrong shape: each field of each answer is null, missing, of another
// type, huge, or negative. No method may panic, loop, or misread such an answer. Once PID 1 crashed at every restart
// because the commit of a claim was null. make test plays one mutation of 4,000, and null for every twelfth answer;
// make check plays one of 10, and null for every answer; -mutations 1 plays all.
func TestMutations(t *testing.T) {
	onLocal(t, func(w *world) {
		tape := record(w)
		every, nulls, n := sized(min(*mutationsEvery, 10), 4**mutationsEvery), sized(1, 12), 0
		for i, key := range slices.Sorted(maps.Keys(tape.answers)) {
			mutate(tape.answers[key].body, func(what string, text func() []byte) {
				if n++; n%every != 0 && (what != "null answer" || i%nulls != 0) {
					return
				}
				replay := tape.with(key, text())
				if failed := play(w, replay); failed != "" {
					w.Errorf("%s, %s: %s", key, what, failed)
				}
				if asked := replay.asked; asked > 20*tape.asked+100 {
					w.Errorf("%s, %s: the client made %d requests; without the mutation %d", key, what, asked, tape.asked)
				}
			})
		}
		w.Logf("%d mutations of %d answers, %d requests each", n, len(tape.answers), tape.asked)
		if n < 1000 || len(tape.answers) < 20 {
			w.Errorf("the test made only %d mutations of %d answers", n, len(tape.answers))
		}
	})
}

// record calls the client's methods on localforge and records every answer.
func record(w *world) *tape {
	blocker := w.file("first", "")
	w.file("second", "Depends on #1, other/place#3", "backlog", "priority")
	w.depends(2, blocker)
	w.file("held by another host", "", "backlog")
	other := w.client(func(o *Options) { o.Claims = claimsOf("instance2", "there") })
	w.must(other.Claim(w.Context(), w.ref(3), w.review, "instance2-1"))
	w.file("to be given away", "", "backlog")
	w.assign(4, w.dev)
	pull, head := w.pull("fix/issue-2", "second", "Fixes #2")
	w.status(head, "ci", "success")
	w.verdict(w.review, pull, head, "APPROVED")
	ended, _ := w.pull("fix/issue-1", "first", "Fixes #1")
	w.setState(ended, "closed")
	t := &tape{next: w.transport, answers: map[string]taped{}}
	if failed := play(w, t); failed != "" {
		w.Fatal(failed)
	}
	return t
}

// play calls every method that reads or writes, with the tape as the forge. It returns a description of the failure, or
// "".
func play(w *world, t *tape) (failed string) {
	t.asked = 0
	defer func() {
		if v := recover(); v != nil {
			failed = fmt.Sprintf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	c := w.client(func(o *Options) { o.Token, o.HTTP = w.tokens[w.owner], &http.Client{Transport: t} })
	ctx, repo := w.Context(), w.repo
	var errs []error
	try := func(_ any, err error) { errs = append(errs, err) }
	do := func(err error) { errs = append(errs, err) }
	do(c.Prepare(ctx))
	for range 3 {
		facts, err := c.Scan(ctx)
		try(facts, err)
		for i := range facts.Issues {
			if facts.Issues[i].Number <= 0 {
				return fmt.Sprintf("an issue without a number: %+v", facts.Issues[i])
			}
		}
		for i := range facts.Pulls {
			if facts.Pulls[i].Number <= 0 {
				return fmt.Sprintf("a pull request without a number: %+v", facts.Pulls[i])
			}
		}
		c.repos[0].pause, c.paused = pause{}, pause{}
	}
	for n := range int64(6) {
		try(c.FetchItem(ctx, w.ref(n+1), time.Time{}))
	}
	try(c.Blockers(ctx, w.ref(2)))
	do(c.Claim(ctx, w.ref(1), w.dev, "instance1-1"))
	do(c.Release(ctx, w.ref(1), w.dev))
	do(c.Claim(ctx, w.ref(3), w.dev, "instance1-2"))
	do(c.Release(ctx, w.ref(3), w.dev))
	do(c.Reassign(ctx, w.ref(4), w.dev, w.review, []string{"stolen"}, "instance1-3"))
	do(c.Label(ctx, w.ref(1), []string{"priority"}, []string{"priority"}))
	do(c.Comment(ctx, w.ref(1), "key", "text"))
	do(c.Depend(ctx, w.ref(4), w.ref(1)))
	try(c.File(ctx, forge.Draft{Repo: repo, Title: "another", Labels: []string{"backlog"}}))
	do(c.SetHook(ctx, repo, "http://127.0.0.1:1/", "secret"))
	try(c.HasHook(ctx, repo, "http://127.0.0.1:1/"))
	do(c.MayWork(ctx, w.tokens[w.dev], repo))
	try(c.WhoAmI(ctx, ""))
	try(c.Free(ctx, w.ref(3)))
	do(c.Merge(ctx, w.ref(5), "0123", "main"))
	do(c.Close(ctx, w.ref(1)))
	for _, err := range errs {
		if all := forge.Panics(err); len(all) > 0 {
			return fmt.Sprintf("%s\n%s", all[0], all[0].Stack)
		}
	}
	return ""
}

// tape is a forge that repeats recorded answers.
type tape struct {
	next http.RoundTripper // if set, requests go there and the answers are recorded

	mu      sync.Mutex // guards the fields below: the client makes concurrent requests
	answers map[string]taped
	asked   int
}

type taped struct {
	status int
	header http.Header
	body   []byte
}

// with returns a copy of the tape that gives another answer to one request.
func (t *tape) with(key string, body []byte) *tape {
	t.mu.Lock()
	defer t.mu.Unlock()
	answers := maps.Clone(t.answers)
	answers[key] = taped{answers[key].status, answers[key].header, body}
	return &tape{answers: answers}
}

// RoundTrip implements http.RoundTripper.
func (t *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.Method + " " + r.URL.Path
	if page := r.URL.Query().Get("page"); page > "1" {
		key += " page " + page
	}
	if a, known := t.played(key); t.next == nil {
		if !known {
			a = taped{status: http.StatusNotFound, body: []byte("{}")}
		}
		return &http.Response{
			StatusCode: a.status, Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
		}, nil
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, known := t.answers[key]; !known || len(old.body) < len(body) {
		t.answers[key] = taped{resp.StatusCode, resp.Header, body}
	}
	return resp, err
}

// played counts a request and returns the recorded answer to it.
func (t *tape) played(key string) (a taped, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	a, known = t.answers[key]
	return a, known
}

// mutate calls play for each fault at each place of an answer. play calls mutated to get the encoded answer.
func mutate(text []byte, play func(what string, mutated func() []byte)) {
	var root any
	as := func(text string) func() []byte { return func() []byte { return []byte(text) } }
	if json.Unmarshal(text, &root) != nil { // not JSON: the answer to a push
		play("null", as("null"))
		play("nothing", as(""))
		return
	}
	add := func(what string) {
		play(what, func() []byte {
			mutated, err := json.Marshal(root)
			if err != nil {
				panic(err) // cannot fail: root was decoded from JSON
			}
			return mutated
		})
	}
	visit(&root, "answer", func(at string, value any, set func(any)) {
		for _, f := range faultsOf(value) {
			set(f.value)
			add(f.what + " " + at)
		}
		set(value)
	}, func(at string) { add("missing " + at) })
	play("nothing", as(""))
	play("half", as(string(text[:len(text)/2])))
}

type fault struct {
	what  string
	value any
}

func faultsOf(value any) []fault {
	faults := []fault{{"null", nil}}
	if _, isText := value.(string); isText {
		faults = append(faults, fault{"number", 7}, fault{"huge", strings.Repeat("x", 1<<16)}, fault{"empty", ""})
	} else {
		faults = append(faults, fault{"text", "x"})
	}
	switch value.(type) {
	case float64:
		faults = append(faults, fault{"huge", json.RawMessage("1e300")}, fault{"large", int64(1<<63 - 1)},
			fault{"negative", -1}, fault{"zero", 0})
	case map[string]any:
		faults = append(faults, fault{"list", []any{}}, fault{"empty", map[string]any{}})
	case []any:
		faults = append(faults, fault{"object", map[string]any{}}, fault{"of null", []any{nil, nil}},
			fault{"of empty", []any{map[string]any{}}})
	}
	return faults
}

// visit calls found for a value and all values in it; set replaces the value. Of a list it visits only the first and
// last entries. It calls missing while a field is removed.
func visit(value *any, at string, found func(at string, value any, set func(any)), missing func(at string)) {
	found(at, *value, func(v any) { *value = v })
	switch v := (*value).(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was := v[key]
			visit(&was, at+"."+key, func(at string, inner any, set func(any)) {
				found(at, inner, func(x any) { set(x); v[key] = was })
			}, missing)
			delete(v, key)
			missing(at + "." + key)
			v[key] = was
		}
	case []any:
		for i := range v {
			if i == 0 || i == len(v)-1 {
				visit(&v[i], fmt.Sprintf("%s[%d]", at, i), found, missing)
			}
		}
	}
}
