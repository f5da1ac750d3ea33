//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/web"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// factory is the API of a factory with a fixed state.
type factory struct {
	mu     sync.Mutex // guards the fields below
	state  control.Document
	deaf   bool     // answers nothing more
	talks  bool     // a session works on the issue, and hears what it is told
	posted []string // the commands
}

func (f *factory) Get(_ context.Context, path string, answer any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf {
		return control.ErrNoAnswer
	}
	at, query, _ := strings.Cut(path, "?")
	values, _ := url.ParseQuery(query)
	var known any
	switch at {
	case "/v1/state":
		q, err := control.ReadQueueQuery(values)
		if err != nil {
			return err
		}
		d := f.state
		if q != nil {
			d.Choose(q)
		}
		known = d
	case "/v1/show":
		if strings.Contains(values.Get("ref"), "999") {
			return control.NotFound("cannot find %s on the forge", values.Get("ref"))
		}
		known = life()
		if f.talks {
			known.(*control.ItemDocument).Running = []control.SessionDocument{{
				RunID: "r", Agent: "dev-sonnet", Thread: "anthropic", Repo: "ada/teashop", Number: 398, Kind: agents.KindRework,
				StartedAt: begun.Add(-12 * time.Minute), UsualSeconds: 1080, LastLine: "go test ./...",
				Told: []agents.Message{
					{At: begun.Add(-10 * time.Minute), By: "ada", Text: "Use tabs.", Heard: begun.Add(-9 * time.Minute)},
					{At: begun.Add(-time.Minute), By: "bob", Text: long},
				},
			}}
		}
	case "/v1/why":
		known = why()
	case "/v1/report":
		q, _ := control.ReadRecordQuery(values, time.Now())
		known = control.RecordOf(&ledger.Books{Past: past(), Merges: merges()}, q)
	case "/v1/history":
		known = control.HistoryDocument{Sessions: documents(past()), Timeline: ledger.Timeline{Merges: merges()}}
	case "/v1/convoys":
		known = control.Convoys{Convoys: []threads.Convoy{convoy()}}
	}
	text, _ := json.Marshal(known)
	return json.Unmarshal(text, answer)
}

func (f *factory) Post(_ context.Context, path string, request, answer any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, _ := json.Marshal(request)
	f.posted = append(f.posted, path+" "+string(text))
	if r, is := answer.(*control.Report); is {
		r.Subject = "ada/teashop#398"
		if d, drains := request.(control.DrainRequest); drains && d.DryRun {
			r.Add("%s", (&control.DrainDocument{Left: 9}).Line())
			r.Add("new work that waits: 12 items")
			return nil
		}
		r.Add("%s", strings.TrimPrefix(path, "/v1/"))
	}
	return nil
}

func (f *factory) Copy(ctx context.Context, path string, w io.Writer) error {
	if strings.HasPrefix(path, "/v1/log") {
		lines := "17:02:12 fetched main\n17:02:16 starting claude\n17:02:31 go test ./...\n17:05:40 FAIL <b>pay</b>\n" +
			"17:23:51 pushing fix/issue-398, 2 ahead of main\n17:24:00 done: opened #427\n"
		_, err := io.WriteString(w, lines)
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// set changes the state.
func (f *factory) set(change func(*factory)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *factory) commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.posted, "; ")
}

// begun is the time of a fixed history: a page of it changes only when a test changes something.
var begun = time.Now()

const long = "Let a customer change the delivery address until the parcel is packed, including when the order was " +
	"split into two parcels, and the Rechtsschutzversicherungsgesellschaften have agreed"

// busy is a factory at work, with everything that a page can show, and rows items that wait.
func busy(rows int) control.Document {
	now := time.Now()
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	d := control.Document{
		Version: "0.4.0", StartedAt: ago(9000), Sandbox: "Landlock 7, seccomp",
		Config: control.ConfigDocument{Path: "/etc/disinto/factory.toml", Generation: 1},
		Forge:  control.ForgeDocument{URL: "http://forge.example.org", OK: true, LastScan: now},
		Today:  control.TodayDocument{Sessions: 96, Failed: 3, Merged: 31},
		Disk:   control.DiskDocument{Free: 11 << 30},
		Repos:  []control.RepoDocument{{Name: "ada/teashop", Sessions: 7}},
	}
	usd := map[string]float64{"anthropic": 60, "openai": 20}
	slots := map[string]int{"anthropic": 4, "openai": 2, "llama": 3}
	for _, name := range []string{"anthropic", "llama", "openai"} {
		t := control.ThreadDocument{Name: name, Backend: threads.API, Overlap: true}
		if name == "llama" {
			t.Backend, t.Overlap = threads.Local, false
		}
		t.Spent = control.SpentDocument{USD: usd[name] / 3, USDPerDay: usd[name]}
		for i := range slots[name] {
			t.Slots = append(t.Slots, control.SlotDocument{Index: i, Agents: []string{}})
		}
		d.Threads = append(d.Threads, t)
	}
	run := func(thread string, slot int, agent string, kind agents.Kind, n int64, title string, minutes, usual int) {
		for i := range d.Threads {
			if d.Threads[i].Name == thread {
				d.Threads[i].Slots[slot].Agents = []string{agent}
			}
		}
		d.Sessions = append(d.Sessions, control.SessionDocument{
			RunID: agent, Thread: thread, Slot: slot, Agent: agent, Role: "dev", Kind: kind, Repo: "ada/teashop", Number: n,
			Title: title, State: threads.Running, StartedAt: ago(minutes), UsualSeconds: int64(usual * 60),
			LastLine: "go test ./recon/... (3 of 11 packages)",
		})
	}
	run("anthropic", 0, "dev-sonnet", agents.KindIssue, 412, "Make the shipping estimate honest about customs", 12, 18)
	run("anthropic", 1, "review-sonnet", agents.KindReview, 431, "Ask business customers for their VAT number", 2, 4)
	run("anthropic", 2, "dev-opus", agents.KindRework, 88, "Reconcile partial captures across currencies", 41, 25)
	run("openai", 0, "dev-codex", agents.KindIssue, 57, long, 7, 14)
	run("openai", 1, "review-codex", agents.KindReview, 94, "Store amounts as integer cents", 1, 3)
	run("llama", 0, "dev-qwen", agents.KindIssue, 19, "עמוד התשלום: כיוון הטקסט מימין לשמאל נשבר", 23, 31)
	run("llama", 1, "dev-kimi", agents.KindIssue, 436, "🧋 Boba toppings: allow more than one per cup 👩‍👩‍👧", 1, 38)
	d.Agents = roster(&d, ago)
	wait := func(n int64, kind agents.Kind, title string, r threads.Reason, minutes int) {
		d.Queue = append(d.Queue, control.QueueDocument{
			Repo: "ada/teashop", Number: n, Kind: kind, Title: title, Priority: 5, Code: r.Code, Why: r.Text(), Agent: r.Agent,
			Since: ago(minutes), Mend: r.MendFor(fmt.Sprintf("ada/teashop#%d", n)), NeedsPerson: r.NeedsPerson(),
		})
	}
	wait(398, agents.KindIssue, "Stop double charges when the payment page is reloaded",
		threads.Reason{Code: threads.TooManyRounds, Note: "failed CI", Count: 3}, 1080)
	wait(405, agents.KindIssue, "Sell gift cards", threads.Reason{
		Code: threads.NeedsAnswer, Agent: "dev-sonnet-2", Person: "ada", Until: ago(180),
		Note: "Which tax rate applies when the card is sold?",
	}, 180)
	wait(93, agents.KindIssue, "Split the journal into monthly partitions",
		threads.Reason{Code: threads.PlanWaits, Agent: "architect-opus", Until: ago(60)}, 60)
	wait(309, agents.KindIssue, "Take the stock from the ledger", threads.Reason{Code: threads.BlocksItself}, 5760)
	for i := len(d.Queue); i < rows; i++ {
		title, r := "Keep the basket when the session expires", threads.Reason{Code: threads.NoSlot, Thread: "anthropic"}
		switch i % 6 {
		case 2:
			title, r = long, threads.Reason{Code: threads.CIPending}
		case 3:
			title, r = strings.Repeat("A", 120), threads.Reason{Code: threads.CoolDown, Until: now.Add(time.Hour)}
		case 4:
			title, r = "Export the address book as vCard", threads.Reason{Code: threads.AssignedHuman, Note: "ada"}
		case 5:
			title, r = "🚀 Launch the loyalty card 💳🎉", threads.Reason{Code: threads.Paused, Agent: "gardener"}
		}
		wait(int64(500+i), agents.KindIssue, title, r, i)
	}
	for i := range int64(8) {
		outcome := []agents.Result{agents.Done, agents.TimedOut, agents.Question, agents.Limited}[i%4]
		d.Recent = append(d.Recent, control.RecentDocument{
			RunID: fmt.Sprint("r", i), Agent: "dev-qwen", Repo: "ada/teashop", Number: 400 + i, Kind: agents.KindIssue,
			Title: "Translate the checkout to Portuguese", Outcome: outcome, Reason: "opened #18", Log: "x",
			StartedAt: ago(int(i)*9 + 20), EndedAt: ago(int(i)*9 + 2),
		})
	}
	return d
}

// roster has the agents that run, one that is idle, one that a person paused, and one whose token is rejected.
func roster(d *control.Document, ago func(int) time.Time) (list []control.AgentDocument) {
	for i := range d.Sessions {
		list = append(list, control.AgentDocument{
			Name: d.Sessions[i].Agent, Role: "dev", Thread: d.Sessions[i].Thread, Model: "sonnet-4.5",
			State: control.AgentWorking,
			Spent: control.SpentDocument{USD: 6.08, USDPerDay: 12},
		})
	}
	held := threads.Reason{Code: threads.TokenRejected, Agent: "docs-qwen", Note: "the forge says 401"}
	return append(list,
		control.AgentDocument{
			Name: "docs-qwen", Role: "docs", Thread: "llama", State: control.AgentHeld, Code: held.Code,
			Why: held.Text(), NeedsPerson: true,
		},
		control.AgentDocument{
			Name: "gardener", Role: "gardener", Thread: "llama", State: control.AgentHeld,
			Code: threads.Paused, Why: "gardener is paused", Paused: true,
		},
		control.AgentDocument{
			Name: "review-opus", Role: "review", Thread: "anthropic", State: control.AgentIdle,
			IdleSince: ago(30),
		},
	)
}

func past() (list []ledger.Past) {
	for i := range 60 {
		at := begun.Add(-time.Duration(60-i) * 11 * time.Hour)
		agent := []string{"dev-sonnet", "dev-opus", "review-codex"}[i%3]
		ref := ledger.Ref{Repo: "ada/teashop", Number: int64(300 + i)}
		list = append(list, ledger.Past{
			Agent: agent, Kind: agents.KindIssue, Ref: ref, Chain: ref, Thread: "anthropic", Slot: i % 4,
			Start: at.Add(-18 * time.Minute), End: at, Outcome: agents.Done, Model: "sonnet-4.5", Run: fmt.Sprint("p", i),
			Usage: &agents.Usage{InputTokens: 60000, OutputTokens: 4000, CostUSD: 0.5 + float64(i%7)},
		})
	}
	return list
}

func merges() (list []ledger.Merged) {
	for _, p := range past() {
		list = append(list, ledger.Merged{Ref: p.Ref, Chain: p.Chain, When: p.End, Agent: p.Agent})
	}
	return list
}

func documents(list []ledger.Past) (docs []control.PastDocument) {
	for _, p := range list {
		docs = append(docs, control.PastDocument{Past: p, Log: "x"})
	}
	return docs
}

func life() *control.ItemDocument {
	at := begun.Add(-time.Hour)
	return &control.ItemDocument{
		Repo: "ada/teashop", Number: 398, Kind: "issue", Title: "Stop double charges when the payment page is reloaded",
		Author: "ada", Labels: []string{"backlog", "skill/ts"}, State: control.StateOpen, FiledAt: at.Add(-48 * time.Hour),
		Verdict: "waits: failed CI 3 times, needs a person", Mend: "look at it, then `disinto retry ada/teashop#398`",
		Pulls: []control.PullDocument{{
			Number: 427, Author: "dev-sonnet", Head: "fix/issue-398", State: control.StateOpen, OpenedAt: at.Add(-time.Hour),
			Reviews: []control.ReviewDocument{
				{Author: "review-opus", Verdict: "changes", At: at.Add(-30 * time.Minute), Words: "Please test the reload."},
				{Author: "review-opus", Verdict: "approved", At: at, Words: "Correct, and small."},
			},
		}},
		Sessions: documents(past()[:4]),
		DependsOn: []threads.Member{
			{Repo: "ada/teashop", Number: 361, Title: "Record each charge", State: threads.MemberDone},
		},
		Blocks: []threads.Member{{Repo: "ada/teashop", Number: 417, Title: long, State: threads.MemberBlocked}},
	}
}

func why() *threads.Explanation {
	return &threads.Explanation{
		Repo: "ada/teashop", Number: 398, Code: threads.TooManyRounds,
		Steps: []threads.Step{{Rule: "open", OK: true}, {Rule: "labelled backlog", OK: true}, {
			Rule: "rounds left", Why: "failed CI 3 times, needs a person",
		}},
	}
}

func convoy() threads.Convoy {
	c := threads.Convoy{
		Repo: "ada/teashop", Number: 20, Title: "Honest checkout", State: threads.ConvoyStaged, Known: true,
		Counts: map[threads.MemberState]int{threads.MemberDone: 1, threads.MemberRunning: 1, threads.MemberBlocked: 1},
	}
	for i, state := range []threads.MemberState{threads.MemberDone, threads.MemberRunning, threads.MemberBlocked} {
		m := threads.Member{Repo: "ada/teashop", Number: int64(i + 1), Title: long, State: state, Wave: i}
		if i > 0 {
			m.DependsOn = []string{fmt.Sprintf("ada/teashop#%d", i)}
		}
		c.Members = append(c.Members, m)
	}
	return c
}

// states serves a control room of a fixed factory to a browser.
type states struct {
	*room
	factory *factory
	server  *httptest.Server
	config  *threads.Config
}

func newStates(t *testing.T) *states {
	const token = "0123456789abcdef"
	cfg := &threads.Config{Factory: threads.Factory{ListenToken: token}}
	cfg.Forge.Repos, cfg.Forge.URL = []string{"ada/teashop"}, "http://forge.example.org"
	f := &factory{state: busy(40)}
	site := &web.Site{API: f, Config: func() *threads.Config { return cfg }}
	server := httptest.NewServer(site.Handler())
	r := openBrowser(t)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	r.base, r.token = server.URL, token
	return &states{r, f, server, cfg}
}

// phone is four screens of a phone, the most that a page may take there, and mostPage the most bytes of a page. A
// person who asks for a list of 100 rows gets more.
const (
	phone    = 4 * 844
	mostPage = 40_000
)

var widths = []int64{390, 820, 1440}

// A page of every state, at three widths, light and dark.
func TestStates(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"))
	for _, state := range []struct {
		name, path string
		change     func(*factory)
	}{
		{"now", "/", nil},
		{"issue", "/issue?ref=398", nil},
		{"timeline", "/timeline?range=24h", nil},
		{"agents", "/agents", nil},
		{"money", "/money", nil},
		{"convoys", "/convoys", nil},
		{"convoy", "/convoy?ref=20", nil},
		{"not-found", "/issue?ref=999", nil},
		{"filtered", "/?status=blocked&q=nothing", nil},
		{"many", "/?rows=100", func(f *factory) { f.state = busy(200) }},
		{"crowded", "/", func(f *factory) {
			f.state = busy(60)
			for i := range f.state.Queue[4:20] {
				q := &f.state.Queue[4+i]
				q.Code, q.NeedsPerson, q.Mend = threads.PlanWaits, true, "`disinto approve "+fmt.Sprint(q.Number)+"`"
			}
		}},
		{"paused", "/", func(f *factory) {
			f.state = busy(200)
			f.state.Paused, f.state.PausedAt = true, time.Now().Add(-time.Hour)
			f.state.PausedBy, f.state.PausedWhy = "ada", long
		}},
		{"mistake", "/", func(f *factory) {
			f.state.Paused = false
			f.state.Config.Error = "/etc/disinto/factory.toml:7: no such key: max_tokenz"
		}},
		{"draining", "/", func(f *factory) {
			f.state = busy(40)
			f.state.Drain = &control.DrainDocument{Left: 9, PauseNote: threads.PauseNote{
				PausedBy: "ada", PausedAt: time.Now().Add(-time.Hour), PausedWhy: "a new disk", ThenStop: true,
			}}
		}},
		{"several", "/several", nil},
		{"confirm-drain", "/confirm?do=drain", nil},
		{"confirm-pause", "/confirm?do=pause&name=ada/teashop", nil},
		{"confirm-retry", "/confirm?do=retry&of=all", nil},
		{"confirm-cancel", "/confirm?do=cancel&ref=ada/teashop%23412&ref=ada/teashop%23405&ref=ada/teashop%2393", nil},
		{"empty", "/", func(f *factory) { f.state = young() }},
	} {
		if state.change != nil {
			s.factory.set(state.change)
		}
		t.Run(state.name, func(t *testing.T) {
			r := s.with(t)
			for _, width := range widths {
				for _, scheme := range []string{"light", "dark"} {
					r.look(tab, state.path, state.name, width, scheme)
				}
			}
		})
	}
}

// young is a factory in which nothing has happened yet.
func young() control.Document {
	d := busy(0)
	d = control.Document{Forge: d.Forge, Config: d.Config, Threads: d.Threads, Agents: d.Agents[:2], Version: d.Version}
	for i := range d.Threads {
		d.Threads[i].Slots, d.Threads[i].Spent = []control.SlotDocument{{Agents: []string{}}}, control.SpentDocument{}
	}
	d.Unqueued = []control.QueueDocument{{Repo: "ada/teashop", Number: 3, Title: long, Code: threads.NotBacklog}}
	return d
}

// Every button runs its command, at three widths.
func TestButtons(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"))
	menu := func(name string) string {
		return `[...document.querySelectorAll("summary")].find(s => s.textContent.startsWith("` + name + `")).click()`
	}
	paused := func(f *factory) { f.state.Paused, f.state.PausedAt = true, time.Now() }
	for _, press := range []struct {
		path, open, button string
		change             func(*factory)
		want               string
	}{
		{"/", "", `[formaction="/do/retry"]`, nil, `/v1/retry {"ref":"ada/teashop#398"}`},
		{"/", "", `[formaction="/do/approve"]`, nil, `/v1/approve {"ref":"ada/teashop#93"}`},
		{"/", "", `[aria-label^="Go on"]`, nil, `/v1/retry {"ref":"ada/teashop#405"}`},
		{"/", "", `[aria-label="Pause llama"]`, nil, `/v1/pause {"name":"llama","by":"the holder of the token"}`},
		{"/", "Pause", `form[action="/do/pause"] button`, nil, `/v1/pause {"name":"","by":"the holder of the token"}`},
		{"/", "Pause", `form[action="/do/resume"] button`, nil, `/v1/resume {"name":"","by":"the holder of the token"}`},
		{"/agents", "", `[aria-label="Resume gardener"]`, nil, `/v1/resume {"name":"gardener","by":"the holder of the token"}`},
		{"/issue?ref=398", "", `.reason [formaction="/do/retry"]`, nil, `/v1/retry {"ref":"ada/teashop#398"}`},
		{"/issue?ref=398", "More", `[formaction="/do/cancel"]`, nil, `/v1/cancel {"ref":"ada/teashop#398"}`},
		{"/issue?ref=398", "More", `[formaction="/do/release"]`, nil, `/v1/release {"ref":"ada/teashop#398"}`},
		{"/convoys", "", `[formaction="/do/convoy-start"]`, nil, `/v1/convoy/start {"ref":"ada/teashop#20"}`},
		{"/", "", `#paused [formaction="/do/resume"]`, paused, `/v1/resume {"name":"","by":"the holder of the token"}`},
		{"/", "", `[formaction="/do/sling"]`, func(f *factory) { f.state = young() }, `/v1/sling {"ref":"ada/teashop#3"}`},
	} {
		for _, width := range widths {
			s.factory.set(func(f *factory) {
				f.posted, f.state = nil, busy(40)
				if press.change != nil {
					press.change(f)
				}
			})
			s.do(tab, emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600), chromedp.Navigate(s.base+press.path),
				chromedp.WaitReady("main[data-live]"))
			if press.open != "" {
				ask[bool](s.room, tab, menu(press.open)+", true")
			}
			s.click(tab, press.button)
			s.until(tab, `document.querySelector("#said").textContent !== "" && document.readyState === "complete"`)
			if got := s.factory.commands(); got != press.want {
				t.Errorf("%s at %d pixels: got %s, want %s", press.button, width, got, press.want)
			}
		}
	}
}

// A new issue is filed from any page, with the words of the form.
func TestNewIssueForm(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"),
		chromedp.Navigate(s.base+"/money"), chromedp.Click(".menu summary"), chromedp.SendKeys("#new-title", "Add a bell"),
		chromedp.SendKeys("#new-text", "It rings."), chromedp.Click(`form[action="/do/new"] button`))
	s.until(tab, `document.querySelector("#said").textContent !== "" && location.pathname === "/money"`)
	if got, want := s.factory.commands(), `/v1/sling {"title":"Add a bell","body":"It rings."}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The log is divided into the phases of a session, each with its times; the last is open.
func TestLogPhases(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"),
		chromedp.Navigate(s.base+"/issue?ref=398"))
	s.until(tab, `document.querySelectorAll("#log details").length === 3`)
	got := ask[[]string](s.room, tab, `[...document.querySelectorAll("#log details")].map(d =>
		d.querySelector("summary").textContent + (d.open ? ", open: " : ": ") + d.querySelector("pre").textContent)`)
	want := []string{
		"Prepare · 17:02:12 to 17:02:12: 17:02:12 fetched main\n",
		"Run the agent · 17:02:16 to 17:05:40: 17:02:16 starting claude\n17:02:31 go test ./...\n17:05:40 FAIL <b>pay</b>\n",
		"Hand in · 17:23:51 to 17:24:00, open: 17:23:51 pushing fix/issue-398, 2 ahead of main\n" +
			"17:24:00 done: opened #427\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A page without an answer says since when and what it shows, and turns its commands off until it is connected again.
func TestDisconnected(t *testing.T) {
	s := newStates(t)
	tab := s.tab()
	s.do(tab, chromedp.Navigate(s.base+"/signin#"+s.token), chromedp.WaitReady("main[data-live]"))
	buttons := `[...document.querySelectorAll("form[method=post] button, button[form=do]")]`
	s.until(tab, `document.querySelector("#live").textContent === "Live"`)
	s.factory.set(func(f *factory) { f.deaf = true })
	s.server.CloseClientConnections()
	s.until(tab, `/^Not connected since \d\d:\d\d:\d\d, showing \d\d:\d\d:\d\d UTC\.$/.test(
		document.querySelector("#stale strong").textContent)`)
	if !ask[bool](s.room, tab, buttons+`.length > 5 && `+buttons+`.every(b => b.disabled)`) {
		t.Error("a command is on while the page is not connected")
	}
	was := ask[string](s.room, tab, `document.querySelector(".slots time").textContent`)
	time.Sleep(1500 * time.Millisecond)
	if is := ask[string](s.room, tab, `document.querySelector(".slots time").textContent`); is != was {
		t.Errorf("a time counts from %s to %s while the page is not connected", was, is)
	}
	for _, width := range widths {
		for _, scheme := range []string{"light", "dark"} {
			s.shoot(tab, "disconnected", width, scheme)
		}
	}
	s.factory.set(func(f *factory) { f.deaf, f.state.Today.Merged = false, 77 })
	s.click(tab, "#stale button")
	s.until(tab, `document.querySelector("#stale").hidden && document.querySelector("#totals").textContent.includes("77")`)
	if !ask[bool](s.room, tab, buttons+`.every(b => !b.disabled)`) {
		t.Error("a command is off although the page is connected again")
	}
}
