package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
)

// say comments on an issue with a token, and returns the comment's id.
func (f *testForge) say(token string, issue int, text string) (id int64) {
	f.t.Helper()
	var made struct{ ID int64 }
	by := rest.API{URL: f.URL, Token: token}
	path := fmt.Sprintf("/repos/%s/issues/%d/comments", demo.Repo, issue)
	if err := by.Call(f.t.Context(), http.MethodPost, path, map[string]string{"body": text}, &made); err != nil {
		f.t.Fatal(err)
	}
	return made.ID
}

// answers returns the supervisor's answers to a command in a comment.
func (f *testForge) answers(issue int, id int64) (all []string) {
	var comments []struct {
		Body string
		User struct{ Login string }
	}
	f.get(fmt.Sprintf("/issues/%d/comments", issue), &comments)
	for _, c := range comments {
		if strings.Contains(c.Body, fmt.Sprintf("<!-- disinto:command-%d -->", id)) {
			all = append(all, c.User.Login+" "+c.Body)
		}
	}
	return all
}

// forgeCommand writes a person's comment that an agent makes a command within the same second, so that the edit does
// not show.
func (f *testForge) forgeCommand(issue int) (id int64) {
	f.t.Helper()
	for {
		id := f.say(f.HumanToken, issue, "Thanks.")
		by := rest.API{URL: f.URL, Token: f.Tokens[agents.TokenVar("dev-qwen")]}
		path := fmt.Sprintf("/repos/%s/issues/comments/%d", demo.Repo, id)
		edit := map[string]string{"body": "/disinto retry"}
		var made struct {
			Created time.Time `json:"created_at"`
			Updated time.Time `json:"updated_at"`
		}
		if err := by.Call(f.t.Context(), http.MethodPatch, path, edit, &made); err != nil {
			f.t.Fatal(err)
		}
		if made.Created.Equal(made.Updated) {
			return id
		}
	}
}

// asked waits until the supervisor asks to confirm a command, and returns when it did.
func (f *testForge) asked(issue int, id int64) (at time.Time) {
	f.t.Helper()
	eventually(f.t, "a question to confirm the command", func() bool {
		var comments []struct {
			Body    string
			Created time.Time `json:"created_at"`
		}
		f.get(fmt.Sprintf("/issues/%d/comments", issue), &comments)
		for _, c := range comments {
			if strings.Contains(c.Body, fmt.Sprintf("<!-- disinto:command-%d-confirm -->", id)) {
				at = c.Created
			}
		}
		return !at.IsZero()
	})
	return at
}

// react gives a comment a thumbs-up.
func (f *testForge) react(token string, id int64) {
	f.t.Helper()
	by := rest.API{URL: f.URL, Token: token}
	path := fmt.Sprintf("/repos/%s/issues/comments/%d/reactions", demo.Repo, id)
	if err := by.Call(f.t.Context(), http.MethodPost, path, map[string]string{"content": "+1"}, nil); err != nil {
		f.t.Fatal(err)
	}
}

// A person gives commands in comments. A comment of an agent is not a command, although the agent may write. A
// supervisor that is killed and started again answers no command twice. A comment from before its first start is no
// command.
func TestCommandsOnAForge(t *testing.T) {
	leftToStorms(t, "TestCommandOnce of the supervisor, and the reading of comments in forge/forgejo")
	onEachForge(t, commandsInComments)
}

func commandsInComments(t *testing.T, f *testForge) {
	old := f.say(f.HumanToken, 8, "/disinto cancel")
	filed := time.Now()
	eventually(t, "the next second of the forge's clock", func() bool { return time.Now().Unix() > filed.Unix() })
	state := t.TempDir()
	edits := []string{
		"[roles.dev]", "[roles.dev]\nlabel = \"picked\"", `every = "6s"`, `every = "24h"`, `every = "8s"`,
		`every = "24h"`,
	}
	run := f.startRun(state, nil, edits...)
	begun := func() {
		status(t, state, "the forge was read", func(d *control.Document) bool { return d.Forge.OK && len(d.Queue) > 0 })
	}
	begun()
	answered := func(id int64, want string) {
		t.Helper()
		eventually(t, "an answer to a command", func() bool { return len(f.answers(8, id)) > 0 })
		if got := f.answers(8, id); len(got) != 1 || !strings.HasPrefix(got[0], "disinto ```text\n") ||
			!strings.Contains(got[0], want) {
			t.Errorf("got answers %q, want one with %q", got, want)
		}
	}
	agent := f.say(f.Tokens[agents.TokenVar("dev-qwen")], 8, "/disinto cancel")
	text := f.say(f.HumanToken, 8, "Before you say it:\n\n> /disinto cancel\n\n```\n/disinto cancel\n```\n")
	why := f.say(f.HumanToken, 8, "/disinto why")
	answered(why, demo.Repo+"#8: waits: no agent for issue")
	run.signal(syscall.SIGKILL)
	run.wait()
	between := f.say(f.HumanToken, 8, "Go on.\n/disinto assign dev-qwen")
	f.startRun(state, nil, slices.Concat(edits)...)
	begun()
	answered(between, "assigned to dev-qwen\n")
	help := f.say(f.HumanToken, 8, "/disinto please")
	answered(help, "start, assign AGENT, pause [THREAD|AGENT|REPO], or tell TEXT")
	cancel := f.say(f.HumanToken, 8, "/disinto cancel")
	answered(cancel, "labelled cancelled")
	answered(why, "waits: ")
	forged := f.forgeCommand(8)
	f.asked(8, forged)
	f.react(f.Tokens[agents.TokenVar("dev-qwen")], forged)
	retry := f.say(f.HumanToken, 8, "/disinto retry")
	asked := f.asked(8, retry)
	eventually(t, "a later second than the question's", func() bool { return time.Now().Unix() > asked.Unix() })
	f.react(f.HumanToken, retry)
	answered(retry, "label cancelled removed")
	if got := f.answers(8, forged); len(got) > 0 {
		t.Errorf("a command that an agent wrote into a person's comment: got answers %q, want none", got)
	}
	for name, id := range map[string]int64{"before the first start": old, "of an agent": agent, "text": text} {
		if got := f.answers(8, id); len(got) > 0 {
			t.Errorf("%s: got answers %q, want none", name, got)
		}
	}
}
