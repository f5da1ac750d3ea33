package process

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// The texts are those of the first release with shims that outlive their supervisor. Every later supervisor must read
// such a state, and write orders that such a shim reads.
func TestMessagesOfEveryRelease(t *testing.T) {
	at := time.Date(2026, 11, 27, 17, 0, 0, 0, time.UTC)
	state := shimState{
		Gen: 7, Phase: ended, Program: 12, Begun: at, Since: time.Minute, NoSandbox: "no Landlock",
		Verdict: verdict{agents.Cancelled, "ended: issue closed"}, At: at.Add(time.Second), Status: 6 << 8,
		CPU: time.Millisecond, MaxRSS: 1 << 20, Hits: hits{1, 2, 3},
	}
	const stateText = `{"gen":7,"phase":"ended","program":12,"begun":"2026-11-27T17:00:00Z","since":60000000000,` +
		`"no_sandbox":"no Landlock","verdict":{"result":"cancelled","reason":"ended: issue closed"},` +
		`"at":"2026-11-27T17:00:01Z","status":1536,"cpu":1000000,"max_rss":1048576,"hits":{"Killed":1,"Full":2,"Forks":3}}`
	end := order{Gen: 7, End: &endOrder{5 * time.Second, verdict{agents.Lost, "no supervisor"}}, Leave: true}
	const endText = `{"gen":7,"end":{"grace":5000000000,"result":"lost","reason":"no supervisor"},"leave":true}`
	var heard shimState
	if err := json.Unmarshal([]byte(stateText), &heard); err != nil || !cmp.Equal(heard, state) {
		t.Errorf("read the state %+v, %v, want %+v", heard, err, state)
	}
	var obeyed order
	if err := json.Unmarshal([]byte(endText), &obeyed); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		v    any
		want string
	}{{state, stateText}, {end, endText}, {obeyed, endText}, {order{Gen: 7, Start: true}, `{"gen":7,"start":true}`}} {
		if text, err := json.Marshal(tt.v); err != nil || string(text) != tt.want {
			t.Errorf("wrote %s, %v, want %s", text, err, tt.want)
		}
	}
}

// The longest reason fits into a message, and a start order of any size into its file.
func TestLongMessages(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, shim := newLink(pair[0]), os.NewFile(uintptr(pair[1]), "shim")
	defer l.close()
	defer shim.Close()
	reason := strings.Repeat("\x01", 1<<20)
	l.send(order{End: &endOrder{verdict: verdict{agents.Cancelled, reason}}})
	var got order
	if err := receiveMessage(shim, make([]byte, maxText), &got); err != nil || len(got.End.Reason) != maxReason {
		t.Fatalf("received %v, want a reason of %d bytes", err, maxReason)
	}
	if err := sendMessage(shim, shimState{Gen: 1, Phase: runs, Verdict: got.End.verdict}); err != nil {
		t.Fatal(err)
	}
	if s := <-l.states; s.Verdict != got.End.verdict {
		t.Errorf("received a reason of %d bytes, want it whole", len(s.Verdict.Reason))
	}
	job := newJob(t, `echo ${#LONG}`)
	for range 15 { // the kernel bounds one variable to 128 KiB, and all to 2 MiB
		job.Env = append(job.Env, "LONG="+strings.Repeat("x", 100_000))
	}
	if o := runJob(t, job); o.Tail != "100000" {
		t.Errorf("outcome %+v, want a program that got 1.5 MB", o)
	}
}

// What waits in a socket is read after the other end was closed with unread messages.
func TestOrdersOfADeadSupervisor(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "supervisor"), os.NewFile(uintptr(pair[1]), "shim")
	defer theirs.Close()
	if err := sendMessage(theirs, shimState{}); err != nil { // never read: the shim's next read gives ECONNRESET
		t.Fatal(err)
	}
	if err := sendMessage(ours, order{Gen: 9}); err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	var got order
	if err := receiveMessage(theirs, make([]byte, maxText), &got); err != nil || got.Gen != 9 {
		t.Errorf("received %+v, %v, want the order", got, err)
	}
	if err := receiveMessage(theirs, make([]byte, maxText), &got); err == nil {
		t.Error("received a second order")
	}
}
