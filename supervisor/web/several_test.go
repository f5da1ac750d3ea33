package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// night is a factory after a bad night: number 7 runs, 1 to 4 failed, and 5 is queued.
func night() *control.Document {
	d := status()
	d.Repos = []control.RepoDocument{{Name: "o/r", Sessions: 1}, {Name: "o/s"}}
	d.Agents = []control.AgentDocument{{Name: "dev-qwen"}, {Name: "dev-kimi"}}
	d.Queue = nil
	for i, code := range []threads.Code{
		threads.GaveUp, threads.CoolDown, threads.TooManyRounds, threads.GaveUp, threads.NoSlot,
	} {
		q := control.QueueDocument{Repo: "o/r", Number: int64(i + 1), Kind: agents.KindIssue, Title: hostile, Code: code}
		r := threads.Reason{Code: code}
		q.Why, q.NeedsPerson, q.FailedBy = r.Text(), r.NeedsPerson(), "dev-qwen"
		if i == 3 {
			q.Repo, q.FailedBy = "o/s", "dev-kimi"
		}
		d.Queue = append(d.Queue, q)
	}
	return d
}

// button returns the form of a page's button with a label, as a browser would send it.
func (v *visit) button(page, label string) url.Values {
	v.Helper()
	form := url.Values{"secret": {v.secret(page)}}
	for _, tag := range strings.SplitAfter(page, ">") {
		if strings.Contains(tag, `form="do"`) && strings.Contains(tag, "<input") {
			form.Set(attribute(tag, "name"), attribute(tag, "value"))
		}
	}
	before, _, found := strings.Cut(page, ">"+label+"</button>")
	if !found {
		v.Fatalf("the page has no button %q:\n%s", label, page)
	}
	tag := before[strings.LastIndex(before, "<button"):]
	if name := attribute(tag, "name"); name != "" {
		form.Set(name, attribute(tag, "value"))
	}
	form.Set("to", attribute(tag, "formaction"))
	form.Set("back", "/confirm?do=retry")
	return form
}

func attribute(tag, name string) string {
	_, after, _ := strings.Cut(tag, " "+name+`="`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

// A command that reaches far is previewed: the page says what will happen to which items, and its button does just
// that.
func TestConfirm(t *testing.T) {
	for _, tt := range []struct {
		query, label string
		says         []string
		never        string
		posts        string
	}{
		{
			"do=retry&of=all", "Retry 4 items",
			[]string{"o%2Fr%231", "o%2Fs%234", "is tried again; now: gave up"},
			"o%2Fr%235",
			`/v1/retry {"ref":"o/r#1"}; /v1/retry {"ref":"o/r#2"}; /v1/retry {"ref":"o/r#3"}; /v1/retry {"ref":"o/s#4"}`,
		},
		{"do=retry&of=blocked&repo=o/s", "Retry 1 item", nil, "o%2Fr%231", `/v1/retry {"ref":"o/s#4"}`},
		{"do=retry&of=all&agent=dev-kimi", "Retry 1 item", nil, "o%2Fr%231", `/v1/retry {"ref":"o/s#4"}`},
		{"do=cancel&ref=o/r%237&ref=o/r%235", "Cancel 2 items", []string{
			"the session of dev-qwen ends, and its work is pushed", "gets the label cancelled", "stays open",
		}, "o%2Fr%231", `/v1/cancel {"ref":"o/r#7"}; /v1/cancel {"ref":"o/r#5"}`},
		{"do=pause&name=o/r", "Pause o/r", []string{
			"run in o/r finish: 1.", "waits: 2 items.", "waits until someone resumes it",
		}, "o%2Fs%234", `/v1/pause {"name":"o/r","by":"the holder of the token"}`},
		{
			"do=drain", "Drain",
			[]string{"Sessions, reviews, rework and merges go on"},
			"",
			`/v1/drain {"dry_run":true}; /v1/drain {"by":"the holder of the token"}`,
		},
		{
			"do=drain", "Drain, then stop disinto", nil, "",
			`/v1/drain {"dry_run":true}; /v1/drain {"then_stop":true,"by":"the holder of the token"}`,
		},
	} {
		t.Run(tt.query, func(t *testing.T) {
			v := newVisit(t)
			v.api.set("/v1/state", night())
			v.signIn()
			_, page := v.get("/confirm?" + tt.query)
			for _, want := range append(tt.says, "What will happen") {
				if !strings.Contains(page, want) {
					t.Errorf("the preview does not have %q:\n%s", want, page)
				}
			}
			if tt.never != "" && strings.Contains(page, tt.never) || strings.Contains(page, "<img") ||
				strings.Contains(page, "data-live") || strings.Contains(page, "http-equiv") {
				t.Errorf("the preview has %s, markup of a title, or reloads:\n%s", tt.never, page)
			}
			form := v.button(page, tt.label)
			_, page = v.post(form.Get("to"), v.server.URL, form)
			if got := v.api.commands(); got != tt.posts {
				t.Errorf("got  %s\nwant %s", got, tt.posts)
			}
			if !strings.Contains(page, `data-path="/"`) {
				t.Error("the button does not lead back to the page Now")
			}
		})
	}
}

// What one item refuses does not keep the others, and is told.
func TestConfirmRefused(t *testing.T) {
	v := newVisit(t)
	v.api.set("/v1/state", night())
	v.api.refused = "o/r#2"
	v.signIn()
	_, page := v.get("/confirm?do=retry&of=all")
	form := v.button(page, "Retry 4 items")
	_, page = v.post(form.Get("to"), v.server.URL, form)
	if !strings.Contains(page, "retry: 3 of 4 items done; refused: cannot do it") {
		t.Errorf("got\n%s", page)
	}
}

// A confirmation is about at most 50 items, and says so; without items it has no button; an unknown command, agent or
// repository is refused.
func TestConfirmBounds(t *testing.T) {
	v := newVisit(t)
	d := night()
	for i := range int64(100) {
		q := d.Queue[0]
		q.Number, q.Title = 100+i, strings.Repeat("a long title ", 12)
		d.Queue = append(d.Queue, q)
	}
	v.api.set("/v1/state", d)
	v.signIn()
	for query, want := range map[string]string{
		"do=retry&of=all": "the first 50 of 104", "do=retry&of=none": "there is nothing to retry",
		"do=retry&agent=dev": "no agent is called dev", "do=pause&name=o/x": "no repository is called",
		"do=upgrade": "none of drain, pause, retry and cancel", "do=cancel&ref=x": "Not understood",
	} {
		if _, page := v.get("/confirm?" + query); !strings.Contains(page, want) || len(page) > mostPage {
			t.Errorf("%s: want %q in at most %d bytes, got %d:\n%s", query, want, mostPage, len(page), page)
		}
	}
	if _, page := v.get("/confirm?do=retry&of=none"); strings.Contains(page, "/do/retry") {
		t.Error("nothing is to be retried, and there is a button")
	}
}

// The page that chooses has a box for each item of the queue's filter, all of them checked where asked.
func TestSeveral(t *testing.T) {
	v := newVisit(t)
	v.api.set("/v1/state", night())
	v.signIn()
	_, now := v.get("/?status=needs-you")
	if want := `href="/several?rows=20&amp;status=needs-you"`; !strings.Contains(now, want) {
		t.Errorf("the page Now has no link %s", want)
	}
	for query, checked := range map[string]int{"": 0, "?all": 5} {
		status, page := v.get("/several" + query)
		boxes := strings.Count(page, `type="checkbox"`)
		if status != http.StatusOK || boxes != 5 || strings.Count(page, " checked>") != checked {
			t.Errorf("%q: got %d, %d boxes, want 5, %d of them checked:\n%s", query, status, boxes, checked, page)
		}
		for i := range 5 {
			if name := fmt.Sprintf(`value="o/%c#%d"`, "rrrsr"[i], i+1); !strings.Contains(page, name) {
				t.Errorf("there is no box %s", name)
			}
		}
	}
}
