package supervisor

import (
	"testing"
)

// A listener that does not listen is dropped; it holds nobody up.
func TestSlowListener(t *testing.T) {
	var h hub
	slow, quick := h.listen(), h.listen()
	got := 0
	for range eventBacklog + 10 {
		h.send(Event{Type: EventStarted})
		<-quick
		got++
	}
	n := 0
	for range slow {
		n++
	}
	if n != eventBacklog || got != eventBacklog+10 {
		t.Errorf("the slow one got %d events before it was dropped, the quick one %d", n, got)
	}
	h.leave(slow)
	h.shut()
	if _, open := <-quick; open {
		t.Error("shut left a listener waiting")
	}
	if _, open := <-h.listen(); open {
		t.Error("one can listen to a hub that is shut")
	}
	h.leave(quick)
}
