package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// epoch is the start of each test.
var epoch = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestTold runs scripts. Each line is a time, the causes in the status, and after the arrow the messages sent.
func TestTold(t *testing.T) {
	tests := []struct{ name, script string }{
		{"each cause is sent once", `
			0s a -> a
			1s a ->
			2s a b -> b
			1h a b ->
			100h a b ->`},
		{"a cause absent for less than a minute is not over", `
			0s a -> a
			1s ->
			59s a ->
			20m a ->`},
		{"a cause that comes back is sent again after a rest", `
			0s a -> a
			1m ->
			3m a ->
			9m59s a ->
			10m a -> a again`},
		{"the rest doubles", `
			0s a -> a
			1m ->
			3m a ->
			10m a -> a
			11m ->
			13m a ->
			29m a ->
			30m a -> a`},
		{"a cause that comes back much later is sent at once, and the rest does not grow", `
			0s a -> a
			1m ->
			30m ->
			1h a -> a
			1h1m ->
			1h3m a ->
			1h10m a -> a`},
		{"a label that we set is not another cause", `
			0s i/refused -> i
			2s i/label ->
			20m i/label ->
			30m i/refused ->`},
		{"another reason is another cause", `
			0s i/base-changed -> i
			20m i/human-objects -> i`},
		{"without a scan of the forge no cause is over", `
			0s a -> a
			1m ! ->
			20m ! ->
			21m a ->`},
		{"the forge must be silent for a minute", `
			0s !down ->
			59s !down ->
			1m !down -> down
			5m ->
			5m59s ->
			6m -> down over
			7m ->`},
		{"a restart of the forge sends nothing", `
			0s !down ->
			50s ->
			2m ->
			20m ->`},
		{"an answer restarts the minute", `
			0s !down ->
			10s ->
			40s !down ->
			1m39s !down ->
			1m40s !down -> down`},
		{"a forge that fails again within a minute was not up", `
			0s !down ->
			1m !down -> down
			5m ->
			5m30s !down ->
			30m !down ->`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b causeLog
			for step := range strings.SplitSeq(strings.TrimSpace(tt.script), "\n") {
				said, want, _ := strings.Cut(strings.TrimSpace(step), "->")
				words := strings.Fields(said)
				at, err := time.ParseDuration(words[0])
				if err != nil {
					t.Fatal(err)
				}
				whole := !strings.Contains(said, "!")
				var list []Message
				for _, w := range words[1:] {
					if w = strings.TrimPrefix(w, "!"); w != "" {
						list = append(list, scripted(w))
					}
				}
				now := epoch.Add(at)
				b.record(now, list, whole)
				fresh, _ := b.due(now)
				var got []string
				for _, m := range fresh {
					got = append(got, m.Key)
				}
				if want = strings.TrimSuffix(strings.TrimSpace(want), " again"); strings.Join(got, " ") != want {
					t.Errorf("%s: got %q, want %q", step, got, want)
				}
			}
		})
	}
}

func scripted(word string) Message {
	key, code, _ := strings.Cut(word, "/")
	m := Message{Key: key, Code: threads.Code(code), Topic: threads.NotifyNeedsHuman, Words: key}
	if key == "down" {
		m.Stands, m.Over = downFor, "up"
	}
	return m
}

// due returns when to check again, so that no message depends on a new status.
func TestToldNext(t *testing.T) {
	var b causeLog
	b.record(epoch, []Message{scripted("down")}, false)
	if _, next := b.due(epoch); !next.Equal(epoch.Add(downFor)) {
		t.Errorf("got next %s, want %s", next, epoch.Add(downFor))
	}
	now := epoch.Add(downFor)
	if list, next := b.due(now); len(list) != 1 || !next.IsZero() {
		t.Errorf("got %d messages, next %s; want 1 and zero", len(list), next)
	}
	b.record(now, nil, true)
	if _, next := b.due(now); !next.Equal(now.Add(stay)) {
		t.Errorf("got next %s, want %s", next, now.Add(stay))
	}
}

// A message that a recipient got is not sent by the next supervisor; all others are.
func TestToldRestart(t *testing.T) {
	var b causeLog
	b.record(epoch, []Message{scripted("a"), scripted("b"), scripted("i/refused")}, true)
	fresh, _ := b.due(epoch)
	b.recordSent([]Message{fresh[0], fresh[2]})
	var next causeLog
	next.restore(b.lines())
	later := epoch.Add(time.Hour)
	next.record(later, nil, false) // the forge was not read yet
	next.due(later)
	later = later.Add(10 * time.Minute)
	next.record(later, []Message{scripted("a"), scripted("b"), scripted("i/label")}, true)
	if fresh, _ := next.due(later); len(fresh) != 1 || fresh[0].Key != "b" {
		t.Errorf("got %v, want b", fresh)
	}
}

// The causes kept have a bound, and more causes wait.
func TestToldBound(t *testing.T) {
	var list []Message
	for i := range 3 * maxCauses {
		list = append(list, scripted(fmt.Sprintf("item-%d", i)))
	}
	var b causeLog
	b.record(epoch, list, true)
	if fresh, _ := b.due(epoch); len(fresh) != maxCauses {
		t.Errorf("got %d messages, want %d", len(fresh), maxCauses)
	}
	b.record(epoch.Add(time.Second), nil, true)
	for _, after := range []time.Duration{time.Hour, 2 * time.Hour} {
		b.due(epoch.Add(after))
	}
	b.record(epoch.Add(3*time.Hour), list[2*maxCauses:], true)
	if fresh, _ := b.due(epoch.Add(3 * time.Hour)); len(fresh) != maxCauses {
		t.Errorf("after the others are over: got %d messages, want %d", len(fresh), maxCauses)
	}
}
