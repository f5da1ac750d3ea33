package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestSight passes more, longer and stranger names than a receipt accepts.
func TestSight(t *testing.T) {
	long := strings.Repeat("ä", 5<<20) // 10 MB
	names := []string{"git", "git", "", " ", long, "a\nb\x1b[31mc\x00d", "\xff\xfe", "\u202eevil"}
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("%05d", i))
	}
	s := Sight(7, names)
	if len(s.Names) != MaxNames || !s.Cut || *s.Count != 7 || !slices.IsSorted(s.Names) {
		t.Errorf("got %d names, cut %v, count %d; want %d sorted, cut, count 7", len(s.Names), s.Cut, *s.Count, MaxNames)
	}
	s = Sight(7, names[:8])
	for _, name := range s.Names {
		odd := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
		if odd || len(name) > maxName+len("…") || strings.TrimSpace(name) == "" {
			t.Errorf("name %q is empty, too long or not printable", name)
		}
	}
	if !slices.Contains(s.Names, "git") || !slices.Contains(s.Names, "a b [31mc d") || s.Cut {
		t.Errorf("got %q, cut %v; want the names git and \"a b [31mc d\", not cut", s.Names, s.Cut)
	}
}

// TestSeenElsewhere bounds what another machine reports.
func TestSeenElsewhere(t *testing.T) {
	if (*Seen)(nil).Bounded() != nil || (*Seen)(nil).Redact(nil) != nil {
		t.Error("Bounded or Redact of nil is not nil")
	}
	var s Seen
	text := fmt.Sprintf(`{"programs":{"count":-5,"at_least":true,"names":["x\u001b","%s"],"cut":true},
		"hosts":{"count":null,"unknown":"%s\nno","names":["kept?"]}}`, strings.Repeat("y", 1e6), strings.Repeat("z", 1e6))
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	b := s.Bounded()
	if *b.Programs.Count != 0 || !b.Programs.AtLeast || !b.Programs.Cut || len(b.Programs.Names) != 2 {
		t.Errorf("got programs %+v, want count 0, at least, cut, 2 names", b.Programs)
	}
	if b.Hosts.Count != nil || b.Hosts.Names != nil || len(b.Hosts.Unknown) > 2000 || b.Files.Count != nil {
		t.Errorf("got hosts %.100v, files %+v; want unknown counts and a short reason", b.Hosts, b.Files)
	}
	b.Hosts = Sight(1, []string{"hunter2hunter2.example"})
	if r := b.Redact([]string{"hunter2hunter2"}); r.Hosts.Names[0] != "[secret].example" ||
		b.Hosts.Names[0] == r.Hosts.Names[0] {
		t.Errorf("Redact returned the hosts %q for %q", r.Hosts.Names, b.Hosts.Names)
	}
	if again := b.Bounded(); fmt.Sprint(*again.Programs.Count, again.Programs.Names) !=
		fmt.Sprint(*b.Programs.Count, b.Programs.Names) {
		t.Errorf("a second Bounded returned %+v, want no change", again)
	}
}
