package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// listener is a factory with one agent. The agent far belongs to another host.
var listener = &threads.Config{
	Forge:  threads.Forge{Bots: []string{"far"}},
	Agents: []agents.Agent{{Name: "dev-qwen", Login: "qwen"}},
}

func saidAt(id int64, after time.Duration, verb string, args ...string) forge.CommandComment {
	return forge.CommandComment{
		Ref: forge.Ref{Repo: "o/r", Number: 7}, ID: id, Author: "johba", At: noon.Add(after),
		Command: forge.Command{Verb: verb, Args: args},
	}
}

func ids(said []forge.CommandComment) string {
	var list []string
	for _, s := range said {
		list = append(list, fmt.Sprint(s.ID))
	}
	return strings.Join(list, " ")
}

// TestCommandsDue has a row for each reason for which a command is not carried out.
func TestCommandsDue(t *testing.T) {
	issue := func(is forge.Issue) forge.Facts {
		is.Ref = forge.Ref{Repo: "o/r", Number: 7}
		return forge.Facts{Issues: []forge.Issue{is}}
	}
	pull := func(p forge.Pull) forge.Facts {
		p.Ref = forge.Ref{Repo: "o/r", Number: 7}
		return forge.Facts{Pulls: []forge.Pull{p}}
	}
	known := Record{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}}
	tests := []struct {
		name    string
		journal []Record
		facts   forge.Facts
		said    forge.CommandComment
		due     bool
	}{
		{"new", []Record{known}, forge.Facts{}, saidAt(5, time.Second, "why"), true},
		{
			"on an issue of ours",
			[]Record{known},
			issue(forge.Issue{Assignees: []string{"qwen"}}),
			saidAt(5, time.Second, "why"), true,
		},
		{"before we first read the repository", []Record{known}, forge.Facts{}, saidAt(5, -time.Second, "why"), false},
		{"in the second of the first read", []Record{known}, forge.Facts{}, saidAt(5, 0, "why"), true},
		{"in a repository that was never read", nil, forge.Facts{}, saidAt(5, time.Second, "why"), false},
		{
			"taken",
			[]Record{known, {At: noon, Heard: &Heard{Ref: Ref{"o/r", 7}, Comment: 5}}},
			forge.Facts{},
			saidAt(5, time.Second, "why"), false,
		},
		{"held by another", []Record{known}, issue(forge.Issue{HeldBy: "far"}), saidAt(5, time.Second, "why"), false},
		{
			"pinned to another",
			[]Record{known},
			issue(forge.Issue{Assignees: []string{"far"}}),
			saidAt(5, time.Second, "why"), false,
		},
		{
			"a pull request held by another",
			[]Record{known},
			pull(forge.Pull{HeldBy: "far"}),
			saidAt(5, time.Second, "why"), false,
		},
		{
			"a pull request of another",
			[]Record{known},
			pull(forge.Pull{Assignees: []string{"far"}}),
			saidAt(5, time.Second, "why"), false,
		},
		{"for an agent of another", []Record{known}, forge.Facts{}, saidAt(5, time.Second, "assign", "Far"), false},
		{"pause of an agent of another", []Record{known}, forge.Facts{}, saidAt(5, time.Second, "pause", "far"), false},
		{"why, with their name", []Record{known}, forge.Facts{}, saidAt(5, time.Second, "why", "far"), true},
		{"pause of everything", []Record{known}, forge.Facts{}, saidAt(5, time.Second, "pause"), true},
		{
			"on a pull request of ours",
			[]Record{known},
			pull(forge.Pull{Assignees: []string{"qwen"}}),
			saidAt(5, time.Second, "why"), true,
		},
		{"pause of ours", []Record{known}, forge.Facts{}, saidAt(5, time.Second, "pause", "dev-qwen"), true},
		{"a second, later Listen record", []Record{known, {At: noon, Listen: &Listen{
			Ref: Ref{Repo: "o/r"}, Since: noon.Add(time.Hour),
		}}}, forge.Facts{}, saidAt(5, time.Second, "why"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.Commands = []forge.CommandComment{tt.said}
			got := Fold(tt.journal).Commands(listener, &tt.facts, noon)
			if (len(got) == 1) != tt.due {
				t.Errorf("due: got %v, want %t", got, tt.due)
			}
		})
	}
}

// An account may give so many commands a minute, and commands count for a minute.
func TestCommandsPerMinute(t *testing.T) {
	s := Fold([]Record{{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}}})
	var f forge.Facts
	for id := range int64(CommandsPerMinute + 1) {
		f.Commands = append(f.Commands, saidAt(id+1, time.Second, "why"))
	}
	if got := s.Commands(listener, &f, noon); len(got) != CommandsPerMinute {
		t.Errorf("got %d commands at once, want %d", len(got), CommandsPerMinute)
	}
	for _, one := range f.Commands[:CommandsPerMinute] {
		s.Apply(Record{At: noon, Heard: &Heard{Ref: Ref(one.Ref), Comment: one.ID, By: one.Author}})
	}
	for after, want := range map[time.Duration]int{time.Minute - 1: 0, time.Minute: 1} {
		if got := s.Commands(listener, &f, noon.Add(after)); len(got) != want {
			t.Errorf("after %s: got %d commands, want %d", after, len(got), want)
		}
	}
	if got := s.Unanswered(); len(got) != CommandsPerMinute {
		t.Errorf("got %d unanswered, want %d", len(got), CommandsPerMinute)
	}
	s.Apply(Record{At: noon, Heard: &Heard{Ref: Ref(f.Commands[0].Ref), Comment: 1, Done: true}})
	if got := s.Unanswered(); len(got) != CommandsPerMinute-1 || got[0].Comment != 2 {
		t.Errorf("got %d unanswered after an answer, want %d", len(got), CommandsPerMinute-1)
	}
}

// A command that was asked about is not due, not unanswered, and waits until it is carried out.
func TestUnconfirmed(t *testing.T) {
	f := &forge.Facts{Commands: []forge.CommandComment{saidAt(5, time.Second, "retry"), saidAt(6, time.Second, "retry")}}
	heard := Heard{Ref: Ref{"o/r", 7}, Comment: 5, By: "johba", Verb: "retry", Asked: true}
	journal := []Record{{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}}, {At: noon, Heard: &heard}}
	s := Fold(Fold(journal).Compact(noon)) // after a restart, too
	if due, waits := ids(s.Commands(listener, f, noon)), ids(s.Unconfirmed(f)); due != "6" || waits != "5" ||
		len(s.Unanswered()) != 0 {
		t.Errorf("asked: got %s due, %s unconfirmed, unanswered %v; want 6, 5, none", due, waits, s.Unanswered())
	}
	heard.Asked = false
	s.Apply(Record{At: noon, Heard: &heard})
	if waits := ids(s.Unconfirmed(f)); waits != "" || len(s.Unanswered()) != 1 {
		t.Errorf("carried out: got %s unconfirmed, unanswered %v; want none, and 5", waits, s.Unanswered())
	}
}

// TestHeardIsBounded checks that a thousand commands are remembered, and that an older command counts as heard.
func TestHeardIsBounded(t *testing.T) {
	s := Fold([]Record{{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}}})
	for id := range int64(3 * maxHeard) {
		s.Apply(Record{At: noon, Heard: &Heard{Ref: Ref{"o/r", 7}, Comment: id + 100}})
	}
	if len(s.Heard) != maxHeard || len(s.Compact(noon)) != maxHeard+1 {
		t.Fatalf("got %d commands and %d lines, want 1000 and 1001", len(s.Heard), len(s.Compact(noon)))
	}
	f := &forge.Facts{Commands: []forge.CommandComment{saidAt(100, time.Hour, "why"), saidAt(9000, time.Hour, "why")}}
	if got := ids(s.Commands(listener, f, noon.Add(time.Hour))); got != "9000" {
		t.Errorf("due: got %s, want 9000", got)
	}
	if n := len(s.Compact(noon.Add(heardFor))); n != 1 {
		t.Errorf("got %d lines after three days, want 1", n)
	}
}

// TestCommandWorlds plays worlds in which people write commands, and the supervisor dies at any moment and forgets
// what it did not journal. No command may be carried out twice, no command from before the first read, and at most
// ten of a person in a minute. In the end all the others must be carried out.
func TestCommandWorlds(t *testing.T) {
	for seed := range uint64(60) {
		playCommands(t, seed)
	}
}

func playCommands(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var (
		journal = []Record{{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}}}
		facts   forge.Facts
		state   = Fold(journal)
		now     = noon
		carried []forge.CommandComment
		when    []time.Time
		fair    = map[int64]bool{} // commands that must be carried out
	)
	write := func(r Record) {
		journal = append(journal, r)
		state.Apply(r)
	}
	tick := func() {
		for _, s := range state.Commands(listener, &facts, now) {
			write(Record{At: now, Heard: &Heard{Ref: Ref(s.Ref), Comment: s.ID, By: s.Author}})
			carried, when = append(carried, s), append(when, now)
			if rng.IntN(8) == 0 { // the supervisor died while it carried out the command
				state = Fold(journal)
				return
			}
			write(Record{At: now, Heard: &Heard{Ref: Ref(s.Ref), Comment: s.ID, Answer: "done"}})
		}
		for _, h := range state.Unanswered() {
			h.Done = true
			write(Record{At: now, Heard: &h.Heard})
		}
	}
	for step := range 60 {
		now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
		for range rng.IntN(4) {
			s := saidAt(int64(len(facts.Commands)+1), now.Sub(noon)-time.Duration(rng.IntN(3))*time.Minute, "why")
			s.Author = fmt.Sprint("person", rng.IntN(2))
			facts.Commands = append(facts.Commands, s)
			fair[s.ID] = !s.At.Before(noon)
		}
		if step%7 == 0 { // a restart, after a compaction
			journal = state.Compact(now)
			state = Fold(journal)
		}
		tick()
	}
	for range 30 {
		now = now.Add(time.Minute)
		tick()
	}
	seen := map[int64]bool{}
	for i, s := range carried {
		if seen[s.ID] || !fair[s.ID] {
			t.Fatalf("world %d: comment %d: carried out before: %v, allowed: %v", seed, s.ID, seen[s.ID], fair[s.ID])
		}
		seen[s.ID] = true
		n := 0
		for j := range i + 1 {
			if carried[j].Author == s.Author && when[i].Sub(when[j]) < time.Minute {
				n++
			}
		}
		if n > 10 {
			t.Fatalf("world %d: %d commands of %s in a minute", seed, n, s.Author)
		}
	}
	for id, want := range fair {
		if want && !seen[id] {
			t.Fatalf("world %d: comment %d was never carried out", seed, id)
		}
	}
	if len(state.Unanswered()) > 0 || !slices.IsSortedFunc(when, time.Time.Compare) {
		t.Fatalf("world %d: got unanswered commands %v, want none", seed, state.Unanswered())
	}
}
