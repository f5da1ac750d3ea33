package hire

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A step is reported when it begins. The steps of a batch run at the same time, and each batch waits for the previous
// one.
func TestPerform(t *testing.T) {
	var said []string
	say := func(step, text string) { said = append(said, step+": "+text) }
	met := make(chan bool)
	meets := func(name string, second bool) step {
		return step{name: name, concurrent: second, pending: always("do " + name), do: func(context.Context) (string, error) {
			if second {
				<-met
			} else {
				met <- true // only while the other step runs
			}
			return "did " + name, nil
		}}
	}
	idle := step{name: "c", concurrent: true, pending: always("")}
	no := func(context.Context) (string, error) { return "", errors.New("no") }
	broken := step{name: "d", pending: always("do d"), do: no}
	after := step{name: "e", pending: func(context.Context) (string, error) { panic("looked at after a failure") }}
	err := perform(t.Context(), []step{meets("a", false), meets("b", true), idle, broken, after}, false, say)
	const want = "a: do a ...; b: do b ...; c: nothing to do; a: did a; b: did b; d: do d ..."
	if got := strings.Join(said, "; "); got != want || err == nil || !strings.HasPrefix(err.Error(), "no (at d") {
		t.Errorf("perform: %v, and it reported %s\nwant %s", err, got, want)
	}
	said = nil
	if err := perform(t.Context(), []step{meets("a", false), meets("b", true), idle}, true, say); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(said, "; "); got != "a: would do a; b: would do b; c: nothing to do" {
		t.Errorf("the dry run reported %s, want what it would do", got)
	}
}
