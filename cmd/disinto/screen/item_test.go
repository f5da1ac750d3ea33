package screen

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// A life lists the dependencies and the issues that it blocks.
func TestLifeAround(t *testing.T) {
	d := *read[control.ItemDocument](t, "life/merged.json")
	d.DependsOn = []threads.Member{{Repo: d.Repo, Number: 3, State: threads.MemberDone}}
	d.Blocks = []threads.Member{
		{Repo: d.Repo, Number: 8, State: threads.MemberReady},
		{Repo: "x/y", Number: 9, State: threads.MemberBlocked},
	}
	text := View{Now: noon}.Item(&d)
	if !strings.Contains(text, "depends on: #3 done\nblocks: #8 ready, x/y#9 blocked\n") {
		t.Errorf("got no dependencies, or the wrong ones, in\n%s", text)
	}
}
