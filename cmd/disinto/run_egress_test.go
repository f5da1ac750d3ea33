package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// A person who looks at the status of an issue whose sessions were refused a host sees that, and once agents have given
// up, under NEEDS YOU, the line to add to factory.toml, whole.
func TestEgressOnScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		refused := agents.Refusals{
			{Host: "chatgpt.com:443", Rule: "chatgpt.com", Times: 40},
			{Host: "evil.example:443", Rule: "evil.example", Times: 3},
		}
		w.Exec.Script = func(agents.Job, int) simtest.Script {
			return simtest.Script{Takes: time.Second, Outcome: agents.Outcome{
				Result: agents.Failed, Refused: refused, Claimed: true,
				Reason: "npm ci, exit 1; it was " + refused.Telling().Words() + " (egress)",
			}}
		}
		w.Forge.Issue("one")
		l := w.Start()
		status := func() string {
			text := screen.View{Now: time.Now(), Width: 100}.Status(l.Document())
			return strings.Join(strings.Fields(text), " ") // a line may be wrapped
		}
		w.Until(time.Hour, "it waits for its next try", func() bool {
			return strings.Contains(status(), "it was refused evil.example:443, 3 times (egress)")
		})
		if early := status(); strings.Contains(early, "NEEDS YOU") {
			t.Errorf("people are asked before agents gave up: %s", early)
		}
		const line = "to allow them, add `egress = [\"evil.example\"]` in factory.toml"
		w.Until(12*time.Hour, "agents give up", func() bool {
			_, needs, _ := strings.Cut(status(), "NEEDS YOU")
			return strings.Contains(needs, "refused evil.example:443, 3 times") && strings.Contains(needs, line)
		})
		l.Stop()
	})
}
