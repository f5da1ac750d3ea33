package control

import "testing"

// A reader that does not read is dropped; it delays no other reader.
func TestSlowReader(t *testing.T) {
	var f Feed
	slow, leaveSlow := f.Read()
	quick, leaveQuick := f.Read()
	got := 0
	for range backlog + 10 {
		f.Send(EventStarted, nil)
		<-quick
		got++
	}
	n := 0
	for range slow {
		n++
	}
	if n != backlog || got != backlog+10 {
		t.Errorf("the slow reader got %d events before it was dropped, the quick one %d", n, got)
	}
	leaveSlow()
	f.Close()
	if _, open := <-quick; open {
		t.Error("Close left a reader waiting")
	}
	late, _ := f.Read()
	if _, open := <-late; open {
		t.Error("Read of a closed feed returned an open channel")
	}
	leaveQuick()
}
