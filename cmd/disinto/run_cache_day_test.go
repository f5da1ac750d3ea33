package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
	"codeberg.org/johba/disinto/agents/llama/fakellama"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
	"codeberg.org/johba/disinto/threads/sim"
)

// A day has twelve chains: six filed in the morning and six at noon. A conversation starts with dayBase tokens, and
// each turn adds dayTurn.
const (
	dayChains = 12
	dayBase   = 200
	dayTurn   = 30
	daySeed   = 1
)

func dayLoad() (load sim.Load) {
	for i := range dayChains {
		sessions := []time.Duration{8*time.Minute + time.Duration(i%6)*30*time.Second, 5 * time.Minute, 4 * time.Minute}
		load = append(load, sim.Work{
			At: time.Duration(i/6) * 4 * time.Hour, Priority: 5, Review: 5 * time.Minute, Sessions: sessions[:2+i%2],
		})
	}
	return load
}

// dayOrder is a way to work through the day: the scheduler's order and the server's flags.
type dayOrder struct {
	name   string
	policy sim.Policy
	cache  threads.Cache
	memory bool // --cache-ram
	saves  bool // kv_save, and the server is restarted after a quarter of the turns
}

var dayOrders = []dayOrder{
	{"cron", sim.Cron, "", false, false},
	{"ours", sim.Ours, "", false, false},
	{`ours, cache = "server"`, sim.Ours, threads.CacheServer, true, false},
	{"ours, a restart", sim.Ours, "", false, false},
	{"ours, kv_save and the same restart", sim.Ours, "", false, true},
}

const dayRestart = 3 // the index of the first order with a restart

// dayFactory has six writers on two slots, and reviewers elsewhere.
const dayFactory = `
[forge]
url = "http://forgejo:3000"
token = "t"
repos = ["o/r"]
[threads.write]
backend = "local"
max_concurrent = 2
agents = ["dev-0", "dev-1", "dev-2", "dev-3", "dev-4", "dev-5"]
[threads.review]
backend = "anthropic"
agents = ["review-0", "review-1"]
[roles.dev]
command = ["work"]
[roles.review]
command = ["review"]
`

// decoded returns the configuration of a text, with a token for each agent.
func decoded(t *testing.T, text string) *threads.Config {
	t.Helper()
	c, err := file.Decode("factory.toml", text, func(string) (string, bool) { return "t", true })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (o *dayOrder) simulate(t *testing.T) sim.Report {
	t.Helper()
	cfg := decoded(t, dayFactory)
	cfg.Thread("write").Cache = o.cache
	// Reading takes no time, so that only the order differs.
	cache := sim.Cache{Prefill: 1 << 40, Base: dayBase, Growth: 1}
	return sim.Trial{Config: cfg, Load: dayLoad(), Policy: o.policy, Cache: cache, Seed: daySeed}.Run()
}

// dayRequest is one request of the day.
type dayRequest struct {
	at            time.Duration
	chain         int64
	agent         string
	session, turn int
	last          bool // the last of its session
}

// requests returns the turns of a simulated day in the order of their times.
func requests(r sim.Report, load sim.Load) (list []dayRequest) {
	spans := slices.DeleteFunc(slices.Clone(r.Spans), func(s sim.Span) bool { return s.Thread != "write" })
	slices.SortStableFunc(spans, func(a, b sim.Span) int { return cmp.Compare(a.From, b.From) })
	done := make(map[int64]int) // sessions of each chain
	for i, s := range spans {
		work := load[s.Chain-1].Sessions[done[s.Chain]]
		done[s.Chain]++
		n := int(math.Ceil(work.Seconds() / 30))
		for t := range n {
			at := s.From + time.Duration(t)*(s.To-s.From)/time.Duration(n)
			list = append(list, dayRequest{at, s.Chain, s.Agent, i, t, t == n-1})
		}
	}
	slices.SortStableFunc(list, func(a, b dayRequest) int { return cmp.Compare(a.at, b.at) })
	return list
}

// daySeen counts the tokens of a day.
type daySeen struct {
	requests, computed, unique int64
	restored                   int     // sessions that restored their conversation from a file
	least                      float64 // the smallest share of a restored conversation that the next request found
	took                       time.Duration
}

// again returns the number of tokens computed more than once. The difference may be negative, because the server need
// not compute the tokens that the model wrote.
func (s *daySeen) again() int64 { return max(s.computed-s.unique, 0) }

// dayPlayer sends a day's requests to a server.
type dayPlayer struct {
	t      *testing.T
	url    string
	client *llama.Client
	folder *saved.Folder // where conversations are saved; nil for nowhere
	texts  map[int64]string
	totals map[int64]int64 // the tokens of each chain's last prompt
	since  map[int]int64   // saved.Newest at each session's start
	seen   daySeen
}

func (p *dayPlayer) play(list []dayRequest, restart func()) daySeen {
	p.client, p.texts, p.totals, p.since = llama.New(p.url), make(map[int64]string), make(map[int64]int64),
		make(map[int]int64)
	p.seen.least = 1
	began := time.Now()
	for i, r := range list {
		if i == len(list)/4 && restart != nil {
			restart()
		}
		p.request(r)
	}
	p.seen.took = time.Since(began)
	for _, n := range p.totals {
		p.seen.unique += n
	}
	return p.seen
}

func (p *dayPlayer) request(r dayRequest) {
	restored := int64(0)
	if r.turn == 0 && p.folder != nil {
		restored = p.restore(r)
	}
	if p.texts[r.chain] == "" {
		p.texts[r.chain] = p.words(r.chain, 0, dayBase)
	}
	p.texts[r.chain] += p.words(r.chain, r.session*1000+r.turn+1, dayTurn)
	cached, computed := p.complete(p.texts[r.chain])
	p.seen.requests++
	p.seen.computed += computed
	p.totals[r.chain] = cached + computed
	if restored > 0 {
		p.seen.restored++
		p.seen.least = min(p.seen.least, float64(cached)/float64(restored))
	}
	if r.last && p.folder != nil {
		p.save(r)
	}
}

// words returns a text of that many tokens for the fake server, one byte each, and about as many for a real one.
func (p *dayPlayer) words(chain int64, part, tokens int) string {
	var b strings.Builder
	for i := 0; b.Len() < tokens; i++ {
		fmt.Fprintf(&b, "%c%d ", 'a'+rune((int(chain)*7+part*3+i*5)%26), (int(chain)*31+part*17+i*13)%97)
	}
	return b.String()[:tokens]
}

func (p *dayPlayer) complete(prompt string) (cached, computed int64) {
	p.t.Helper()
	// The grammar restricts the output, because llama-server answers 500 if a model with random weights writes
	// freely.
	text, err := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 1, "grammar": `root ::= "a"`})
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.Post(p.url+"/completion", "application/json", bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var a struct {
		Timings struct {
			Cached   int64 `json:"cache_n"`
			Computed int64 `json:"prompt_n"`
		}
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(said, &a)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("request %d: status %d, %v: %.500s", p.seen.requests, resp.StatusCode, err, said)
	}
	return a.Timings.Cached, a.Timings.Computed
}

func (p *dayPlayer) conversation(r dayRequest) saved.Conversation {
	return saved.Conversation{Agent: r.agent, Model: "tiny", Chain: forge.Ref{Repo: "o/r", Number: r.chain}}
}

func (p *dayPlayer) slots() []agents.ServerSlot {
	slots, err := p.client.Slots(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return slots
}

// restore restores a conversation as a session does at its start.
func (p *dayPlayer) restore(r dayRequest) int64 {
	slots, c := p.slots(), p.conversation(r)
	p.since[r.session] = saved.Newest(slots)
	slot, ok := saved.Place(slots, p.totals[r.chain]+1, nil)
	if !ok || !p.folder.Has(c) {
		return 0
	}
	moved, err := p.client.Restore(p.t.Context(), slot, c.File())
	if err != nil {
		p.t.Error(err)
	}
	return moved.Tokens
}

// save saves a conversation as a session does at its end.
func (p *dayPlayer) save(r dayRequest) {
	slot, known := saved.Find(p.slots(), p.since[r.session], p.totals[r.chain]+1, false)
	if !known {
		return
	}
	run := fmt.Sprint(r.session)
	_, err := p.client.Save(p.t.Context(), slot.ID, saved.Temporary(run))
	if err == nil {
		err = p.folder.Adopt(p.conversation(r), run)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// dayServer starts a server with two separate slots, and returns its address and a function that restarts it.
type dayServer func(t *testing.T, memory bool, folder string) (address string, restart func())

func fakeDay(t *testing.T, memory bool, folder string) (string, func()) {
	s := &fakellama.Server{Model: "tiny", Slots: 2, Folder: folder}
	if memory {
		s.RAM = 8 << 30
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL, s.Restart
}

// realDay starts $LLAMA_TEST_COMMAND, a llama-server command with a model, at the address of $LLAMA_TEST_URL.
func realDay(t *testing.T, memory bool, folder string) (string, func()) {
	address, err := url.Parse(os.Getenv("LLAMA_TEST_URL"))
	command := strings.Fields(os.Getenv("LLAMA_TEST_COMMAND"))
	if err != nil || address.Port() == "" || len(command) == 0 {
		t.Skip("LLAMA_TEST_URL and LLAMA_TEST_COMMAND are not set: an address, and llama-server with -m and a model")
	}
	args := append(command[1:], "--host", address.Hostname(), "--port", address.Port(), "-np", "2", "--no-kv-unified",
		"-c", "32768", "--slot-save-path", folder+"/")
	if !memory {
		args = append(args, "--cache-ram", "0")
	}
	var run *exec.Cmd
	stop := func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	}
	start := func() {
		run = exec.Command(command[0], args...)
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "llama-server is ready", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := llama.New(address.String()).Fetch(ctx, false)
			return err == nil
		})
	}
	start()
	t.Cleanup(func() { stop() })
	return address.String(), func() { stop(); start() }
}

// TestCacheOfADay counts the tokens that a server computes again in a day, in the order of cron and of disinto, and
// compares the counts with the simulator's.
func TestCacheOfADay(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		leftToStorms(t, "tests of saved conversations in supervisor/simtest, and of a switch's cost in threads/sim")
		playDays(t, fakeDay)
	})
	t.Run("real", func(t *testing.T) { playDays(t, realDay) })
}

func playDays(t *testing.T, server dayServer) {
	if os.Getenv("LLAMA_TEST_COMMAND") == "" && strings.HasSuffix(t.Name(), "real") {
		t.Skip("LLAMA_TEST_COMMAND is not set: llama-server with -m and a model, for LLAMA_TEST_URL")
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "order\trequests\tcomputed\tcomputed again\tof cron's\tsimulated\ttook")
	var seen []daySeen
	for i := range dayOrders {
		o := &dayOrders[i]
		report := o.simulate(t)
		if report.Done != dayChains {
			t.Fatalf("%s: got %d issues done", o.name, report.Done)
		}
		var got daySeen
		t.Run(o.name, func(t *testing.T) { // the server ends with the subtest
			p := &dayPlayer{t: t}
			folder := t.TempDir()
			if o.saves {
				p.folder = &saved.Folder{Path: folder, Limit: 10 << 30}
			}
			address, restart := server(t, o.memory, folder)
			p.url = address
			if i < dayRestart {
				restart = nil
			}
			got = p.play(requests(report, dayLoad()), restart)
		})
		seen = append(seen, got)
		simulated := float64(report.Reloaded-dayChains*dayBase) * scaleOf(&got, report)
		said := fmt.Sprintf("%.0f", simulated)
		if i >= dayRestart {
			said = "-" // the simulator restarts no server
		}
		t.Logf("%s: %d requests, %d tokens computed, %d of them again", o.name, got.requests, got.computed, got.again())
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f %%\t%s\t%s\n", o.name, got.requests, got.computed, got.again(),
			100*float64(got.again())/float64(seen[0].again()), said, got.took.Round(time.Second/10))
		of := got.again()
		if o.memory { // almost nothing is computed again, so the tolerance is a share of all tokens
			of = got.computed
		}
		if i < dayRestart && math.Abs(simulated-float64(got.again())) > float64(of)/10 {
			t.Errorf("%s: the simulator counts %.0f tokens computed again, the server %d", o.name, simulated,
				got.again())
		}
	}
	w.Flush()
	kept := seen[len(seen)-1]
	t.Logf("%s\nrestored %d conversations; the next request found at least %.1f %% of each", table.String(),
		kept.restored, 100*kept.least)
	cron, ours, memory, restarted := seen[0].again(), seen[1].again(), seen[2].again(), seen[3].again()
	if 4*ours > cron || 10*memory > cron {
		t.Errorf("computed again: cron %d, ours %d, with memory %d: want a quarter and a tenth at most", cron, ours, memory)
	}
	if kept.again() >= restarted || kept.restored == 0 || kept.least < 0.95 {
		t.Errorf("got %d tokens computed again with kv_save, %d without; found %.2f of a conversation",
			kept.again(), restarted, kept.least)
	}
}

// scaleOf returns the number of the server's tokens per token of the simulator: a real tokenizer's are longer.
func scaleOf(seen *daySeen, r sim.Report) float64 {
	said := len(requests(r, dayLoad()))*dayTurn + dayChains*dayBase
	return float64(seen.unique) / float64(said)
}
