package notify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// healthy is a status in which nothing needs a person.
func healthy() *control.Document {
	return &control.Document{
		Forge:   control.ForgeDocument{URL: "http://forge/", OK: true},
		Threads: []control.ThreadDocument{{Name: "llama"}},
		Agents:  []control.AgentDocument{{Name: "dev-qwen", Role: "dev", Thread: "llama", State: control.AgentIdle}},
	}
}

// row is an item that needs a person.
func row(number int64, code threads.Code, why string) control.QueueDocument {
	return control.QueueDocument{
		Repo: "johba/harb", Number: number, Kind: agents.KindIssue, Title: "Add a LICENSE", Code: code, Why: why,
		NeedsPerson: true,
	}
}

func TestCauses(t *testing.T) {
	until := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		edit func(*control.Document)
		want []string // as topic, key and words
	}{
		{"nothing", func(*control.Document) {}, nil},
		{"an item", func(d *control.Document) {
			q := row(17, threads.GaveUp, "gave up after 3 attempts")
			q.Mend = "`disinto retry johba/harb#17`"
			d.Queue = append(d.Queue, q)
		}, []string{"needs-human|item johba/harb#17|johba/harb#17 Add a LICENSE: gave up after 3 attempts; " +
			"`disinto retry johba/harb#17`|http://forge/johba/harb/issues/17"}},
		{"an item that needs no person", func(d *control.Document) {
			q := row(17, threads.BlockerOpen, "blocked by #12")
			q.NeedsPerson = false
			d.Queue = append(d.Queue, q)
		}, nil},
		{"a label, and the words of the session before it", func(d *control.Document) {
			d.Unqueued = append(d.Unqueued, row(17, threads.SkipLabel, "labelled needs-human"))
			d.Recent = []control.RecentDocument{
				{Repo: "johba/harb", Number: 16, Agent: "other", Outcome: agents.Refused, Reason: "of another"},
				{Repo: "johba/harb", Number: 17, Agent: "dev-qwen", Outcome: agents.Refused, Reason: "which licence?"},
			}
		}, []string{"needs-human|item johba/harb#17|johba/harb#17 Add a LICENSE: labelled needs-human, " +
			"dev-qwen said: which licence?|http://forge/johba/harb/issues/17"}},
		{"an item that is there twice", func(d *control.Document) {
			d.Queue = append(d.Queue, row(17, threads.SkipLabel, "labelled needs-human"),
				row(17, threads.Refused, "refused: no"))
		}, []string{"needs-human|item johba/harb#17|johba/harb#17 Add a LICENSE: refused: " +
			"no|http://forge/johba/harb/issues/17"}},
		{"scheduled work", func(d *control.Document) {
			q := row(0, threads.GaveUp, "gave up")
			q.Title = "gardener"
			d.Queue = append(d.Queue, q)
		}, []string{"needs-human|item johba/harb#0 gardener|johba/harb gardener: gave up|"}},
		{"an outage of Nomad", func(d *control.Document) {
			d.Problems = append(d.Problems, control.NomadProblem+"Nomad answers 500: No cluster leader")
		}, []string{"down|nomad|Nomad: Nomad answers 500: No cluster leader|"}},
		{"one reason for many items", func(d *control.Document) {
			d.Queue = append(d.Queue, row(1, threads.NoSkill, "no agent has the skill go"),
				row(2, threads.NoSkill, "no agent has the skill go"),
				row(3, threads.NoToken, "dev-qwen has no forge token"))
		}, []string{"needs-human|unfit no agent has the skill go|johba/harb#1 Add a LICENSE: no agent has the skill go|" +
			"http://forge/johba/harb/issues/1"}},
		{"agents, two for the same reason", func(d *control.Document) {
			held := control.AgentDocument{Name: "dev-a", State: control.AgentHeld, NeedsPerson: true, Why: "cannot start claude"}
			also := held
			also.Name = "dev-b"
			d.Agents[0].State, d.Agents[0].NeedsPerson, d.Agents[0].Why = control.AgentHeld, true, "dev-qwen has no forge token"
			d.Agents = append(d.Agents, held, also)
		}, []string{
			"needs-human|held cannot start claude|dev-a, dev-b can start nothing: cannot start claude|",
			"needs-human|held has no forge token|dev-qwen can start nothing: has no forge token|",
		}},
		{"an alarm about the own token, which is no outage", func(d *control.Document) {
			d.Forge.OK, d.Forge.Error = false, "401"
			d.Alarms = []control.AlarmDocument{{Code: threads.TokenRejected, About: control.OwnToken, Words: "make a new one"}}
		}, []string{"needs-human|token-rejected supervisor|make a new one|"}},
		{"an agent that a person paused", func(d *control.Document) {
			d.Agents[0].State, d.Agents[0].Why = control.AgentHeld, "dev-qwen is paused"
		}, nil},
		{"problems", func(d *control.Document) {
			d.Problems = []string{"internal error: 17 passes panicked", cannotSend + "url 1: timeout"}
			d.Config.Error = "factory.toml:5: secret = 1"
		}, []string{
			"needs-human|problem internal error:  passes panicked|internal error: 17 passes panicked|",
			"needs-human|config|the configuration has mistakes, which `disinto check` lists; the version before it stays in " +
				"force|",
		}},
		{"the forge", func(d *control.Document) {
			d.Forge.OK, d.Forge.Error = false, "connection refused"
		}, []string{"down|down|the forge does not answer: connection refused|"}},
		{"a forge that was not asked yet", func(d *control.Document) { d.Forge.OK = false }, nil},
		{"no configuration", func(d *control.Document) { d.Forge = control.ForgeDocument{} }, nil},
		{"a parked thread", func(d *control.Document) {
			d.Threads[0].ParkedUntil, d.Threads[0].ParkedWhy = until, "usage limit"
		}, []string{"parked|parked llama|thread llama is rate limited until 2026-11-22T18:00:00Z: usage limit|"}},
		{"budgets", func(d *control.Document) {
			d.Agents[0].Spent = control.SpentDocument{USD: 5, USDPerDay: 5, TokensPerDay: 10, Tokens: 9}
			d.Threads[0].Spent = control.SpentDocument{Tokens: 12, TokensPerDay: 10}
			d.Threads[0].Windows = []control.WindowDocument{
				{Length: "5h", USD: 3, MaxUSD: 3, Tokens: 9}, {Length: "7d", USD: 3, MaxUSD: 9, Tokens: 9, MaxTokens: 10},
			}
		}, []string{
			"budget|budget of agent dev-qwen|dev-qwen has used $5.00 of $5.00 today, and starts nothing until midnight (UTC)|",
			"budget|budget of thread llama|thread llama has used 12 of 10 tokens today, and starts nothing until midnight " +
				"(UTC)|",
			"budget|window of thread llama 5h|thread llama has used $3.00 of $3.00 in 5h, and starts nothing until some " +
				"of it is older than that|",
		}},
		{"within the budget", func(d *control.Document) {
			d.Agents[0].Spent = control.SpentDocument{USD: 4.99, USDPerDay: 5}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := healthy()
			tt.edit(d)
			var got []string
			for _, m := range Causes(d) {
				got = append(got, string(m.Topic)+"|"+m.Key+"|"+m.Words+"|"+m.Link)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// In a message, text from the forge mentions no person, makes no link or markup, and is one short line.
func TestHostileText(t *testing.T) {
	d := healthy()
	q := row(17, threads.Refused, "refused: see https://evil.example/ or [this](http://evil.example)\r\nBcc: all")
	q.Title = "@everyone <!channel>\n\x1b[31m\u202e" + strings.Repeat("x", 100_000)
	d.Queue = append(d.Queue, q)
	words := Causes(d)[0].Words
	for _, bad := range []string{"@everyone", "<!", "\n", "\r", "\x1b", "\u202e", "https://", "](http"} {
		if strings.Contains(words, bad) {
			t.Errorf("got %q in %q", bad, words)
		}
	}
	if len(words) > 2*(maxTitle+2*maxWhy) {
		t.Errorf("got %d bytes", len(words))
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", " a  b ", "\x9b\xff", "@@", "a\u0300\u200d", "](](", "<://>"} {
		f.Add(s, 5)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = min(max(limit, 0), 1000)
		got := Clean(s, limit)
		if strings.ContainsAny(got, "\r\n\t\x1b<>") || strings.Contains(got, "://") || strings.Contains(got, "](") {
			t.Errorf("Clean(%q) = %q", s, got)
		}
		if len(got) > 12*(limit+2) {
			t.Errorf("got %d bytes, want at most %d characters", len(got), limit)
		}
		if at := strings.Index(got, "@"); at >= 0 && !strings.HasPrefix(got[at:], "@\u200b") {
			t.Errorf("Clean(%q) = %q", s, got)
		}
	})
}
