package main

import (
	"regexp"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Every command in a remedy can be typed as it stands: it exists, takes these arguments, and names its subject in full,
// which works in a factory with several repositories too.
func TestRemediesAreCommands(t *testing.T) {
	root := commands(testCLI(nil))
	quoted := regexp.MustCompile("`disinto ([^`]*)`")
	placeholder := regexp.MustCompile(`\b(REF|AGENT|OTHER|SERVICE|REPO)\b`)
	found := 0
	for _, d := range threads.Codes() {
		r := threads.Reason{
			Code: d.Code, Agent: "dev-a", Thread: "api", Refs: []forge.Ref{{Repo: "owner/other", Number: 7}}, Note: "server",
		}
		mend := r.MendFor("owner/name#12")
		if placeholder.MatchString(mend) {
			t.Errorf("%s: the remedy %q has a placeholder", d.Code, mend)
		}
		for _, m := range quoted.FindAllStringSubmatch(mend, -1) {
			found++
			cmd, args, err := root.Find(strings.Fields(m[1]))
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if args = cmd.Flags().Args(); err == nil {
				err = cmd.ValidateArgs(args)
			}
			needsName := strings.Contains(cmd.Use, " NAME") || strings.Contains(cmd.Use, "REF")
			if err != nil || cmd == root || needsName && len(args) == 0 {
				t.Errorf("%s: disinto %s is no whole command: %v", d.Code, m[1], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("got %d commands in remedies, want more: has their form changed?", found)
	}
}
