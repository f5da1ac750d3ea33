package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// exported is one host's report at noon: its clock is right, and it has one idle agent.
func exported(t *testing.T, edit func(*Export, *Document)) []byte {
	t.Helper()
	head := Export{ExportedAt: noon}
	d := Document{Format: Format, Instance: "i", UpdatedAt: noon.Add(-time.Second), Agents: []Agent{{
		Agent: "dev-iris", Login: "iris", Role: "dev", Roles: []Role{{Name: "dev", On: agents.OnIssue}}, Thread: "llama",
		Backend: threads.Local, Skills: []string{"sql", "go"},
		State: threads.LoadIdle, Idle: true, IdleSince: noon.Add(-time.Hour),
	}}}
	if edit != nil {
		edit(&head, &d)
	}
	first, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%s\n%s\n", first, second)
}

// A host's report is believed only if it is complete, new, dated by a correct clock, and about agents.
func TestParse(t *testing.T) {
	agent := func(edit func(*Agent)) func(*Export, *Document) {
		return func(_ *Export, d *Document) { edit(&d.Agents[0]) }
	}
	at := func(exported, updated time.Duration) func(*Export, *Document) {
		return func(h *Export, d *Document) {
			h.ExportedAt, d.UpdatedAt = noon.Add(exported), noon.Add(updated)
		}
	}
	const (
		head    = `{"exported_at":"2026-01-01T12:00:00Z"}` + "\n"
		foreign = "its output is not a disinto status: is its command disinto fleet export? It begins with "
	)
	tests := []struct {
		name string
		edit func(*Export, *Document)
		text string // in place of an export
		want string // "" means no error
	}{
		{name: "a correct report"},
		{name: "nothing", text: "\n", want: "it printed nothing"},
		{name: "a banner", text: "\nWelcome to\x1b[1m iris\nx\n", want: foreign + `"Welcome to [1m iris"`},
		{name: "other JSON", text: "{}\n{}", want: foreign + `"{}"`},
		{name: "a status without a time", text: `{"format":1}`, want: foreign + `"{\"format\":1}"`},
		{name: "a report after a banner", text: "Welcome to iris\n{}\n$ " + string(exported(t, nil))},
		{name: "no status", text: head, want: "it has no status: does disinto run there?"},
		{name: "torn", text: head + `{"format":1,"agents":[{"agent":"d`, want: "its status cannot be read: unexpected EOF"},
		{
			name: "another type", text: head + `{"format":"1"}`,
			want: "its status cannot be read: json: cannot unmarshal string into Go struct field Document.format of type int",
		},
		{
			name: "a later format", edit: func(_ *Export, d *Document) { d.Format = 2 },
			want: "its status has format 2, and this version reads 1: update the older one",
		},
		{name: "two minutes old", edit: at(0, -2*time.Minute)},
		{name: "older", edit: at(0, -121*time.Second), want: "its status is 2m1s old: does its supervisor run?"},
		{
			name: "old, by a clock that is ahead", edit: at(time.Hour, -time.Minute),
			want: "its status is 1h1m0s old: does its supervisor run?",
		},
		{name: "half a minute behind", edit: at(-30*time.Second, -31*time.Second)},
		{name: "behind", edit: at(-10*time.Minute, -10*time.Minute), want: "its clock is 10m0s behind ours"},
		{name: "half a minute ahead", edit: at(32*time.Second, 30*time.Second)},
		{name: "ahead", edit: at(3*time.Minute, 3*time.Minute), want: "its clock is 2m58s ahead of ours"},
		{name: "written tomorrow", edit: at(0, 24*time.Hour), want: "its clock is 23h59m58s ahead of ours"},
		{
			name: "name with a slash", edit: agent(func(a *Agent) { a.Agent = "../x" }),
			want: `its status has "../x" where a name belongs`,
		},
		{
			name: "login with an escape", edit: agent(func(a *Agent) { a.Login = "x\x1b[31m" }),
			want: `its status has "x [31m" where a name belongs`,
		},
		{
			name: "long login", edit: agent(func(a *Agent) { a.Login = strings.Repeat("x", 101) }),
			want: `its status has "` + strings.Repeat("x", 101) + `" where a name belongs`,
		},
		{name: "no thread", edit: agent(func(a *Agent) { a.Thread = "" }), want: `its status has "" where a name belongs`},
		{
			name: "odd role", edit: agent(func(a *Agent) { a.Roles[0].Name = "-x" }),
			want: `its status has "-x" where a name belongs`,
		},
		{
			name: "no role", edit: agent(func(a *Agent) { a.Roles = nil }),
			want: "its status has 0 roles and 2 skills for dev-iris",
		},
		{
			name: "odd state", edit: agent(func(a *Agent) { a.State = "bored" }),
			want: `its status has "bored" for the state of dev-iris`,
		},
		{
			name: "begun what is no issue", edit: func(_ *Export, d *Document) { d.Begun = []string{"o/r#1", "../x#1"} },
			want: `its status has "../x#1" where an issue belongs`,
		},
		{
			name: "begun too much", edit: func(_ *Export, d *Document) { d.Begun = make([]string, 10_001) },
			want: "it reports 10001 started issues",
		},
		{
			name: "too many", edit: func(_ *Export, d *Document) { d.Agents = make([]Agent, 1001) },
			want: "it reports 1001 agents",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := []byte(tt.text)
			if tt.text == "" {
				text = exported(t, tt.edit)
			}
			d, err := parse(text, noon, noon.Add(2*time.Second))
			switch {
			case tt.want == "" && (err != nil || len(d.Agents) != 1 || strings.Join(d.Agents[0].Skills, " ") != "go sql"):
				t.Errorf("got %v, %+v, want one agent", err, d)
			case tt.want != "" && (err == nil || err.Error() != tt.want || d != nil):
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// An agent is idle when its flag and its state agree, and its texts are plain.
func TestParseTames(t *testing.T) {
	d, err := parse(exported(t, func(_ *Export, d *Document) {
		a := d.Agents[0]
		a.Agent, a.Idle = "dev-started", false
		d.Agents = append(d.Agents, a)
		a.Agent, a.State, a.Idle = "dev-gated", threads.LoadGated, true
		a.StateWhy = "paused\r\n[ERROR] \x1b]0;x\a" + strings.Repeat("x", 1000)
		d.Agents = append(d.Agents, a)
	}), noon, noon)
	if err != nil {
		t.Fatal(err)
	}
	gated, iris, started := d.Agents[0], d.Agents[1], d.Agents[2]
	if !iris.Idle || iris.IdleSince.IsZero() || started.Idle || !started.IdleSince.IsZero() || gated.Idle {
		t.Errorf("agents %+v, want only the first one idle", d.Agents)
	}
	if len(gated.StateWhy) > maxText || !strings.HasPrefix(gated.StateWhy, "paused  [ERROR]  ]0;x xxx") {
		t.Errorf("state_why %q, want a short printable line", gated.StateWhy)
	}
	r := started.remote("east", false)
	if r.Host != "east" || r.State != threads.LoadIdle || !r.IdleSince.IsZero() || r.Roles[0].On != agents.OnIssue {
		t.Errorf("remote %+v, want the idle agent's facts", r)
	}
}

// FuzzParse: any report is read, or refused in one line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"exported_at":"2026-01-01T12:00:00Z"}` + "\n" + `{"format":1,"updated_at":"2026-01-01T12:00:00Z",` +
		`"agents":[{"agent":"a","login":"a","thread":"t","roles":[{"name":"r"}],"state":"idle"}]}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		d, err := parse(text, at, at)
		if err != nil && strings.ContainsAny(err.Error(), "\n\r\x1b") {
			t.Errorf("error %q, want one printable line", err)
		}
		if err == nil && d.Agents != nil {
			for _, a := range d.Agents {
				a.remote("h", false)
			}
		}
	})
}
