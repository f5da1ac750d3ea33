package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// logged starts a factory, changes a key, kills its supervisor, waits for the next one, ends it, and returns all that
// it wrote to stderr. argv comes before the program. run is a session that began under the first supervisor.
func (f *testForge) logged(t *testing.T, argv []string, flags ...string) (text, run string) {
	t.Helper()
	state := t.TempDir()
	path := f.file(state, append(f.justOne(), `"demo-agent"`, `"demo-agent", "--think", "1h"`)...)
	argv = append(argv, executable(t), "run", "--yes", "--config", path)
	r := start(t, f.environ(nil), append(argv, flags...)...)
	d := status(t, state, "an agent works", working)
	run = d.Sessions[0].RunID
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(config), `stop_grace = "2s"`, `stop_grace = "1s"`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are logged", func() bool {
		text := r.read(r.stderr)
		return strings.Contains(text, " running implementation") && strings.Contains(text, "factory.stop_grace is")
	})
	old := r.supervisor()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another supervisor runs", func() bool { now := r.supervisor(); return now != 0 && now != old })
	status(t, state, "the session goes on", working)
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	return r.read(r.stderr), run
}

// With --log-format json every line on stderr is an object, those of the init too. The lines of a session have its run.
func TestLogAsJSON(t *testing.T) {
	t.Parallel()
	text, run := newTestForge(t).logged(t, nil, "--log-format", "json")
	type line struct {
		Level   string `json:"@level"`
		Message string `json:"@message"`
		Time    string `json:"@timestamp"`
		Run     string
	}
	var got []line
	for s := range strings.Lines(text) {
		var l line
		if err := json.Unmarshal([]byte(s), &l); err != nil || l.Level == "" || l.Message == "" || l.Time == "" {
			t.Errorf("%q is no line of the log: %v", s, err)
		}
		if strings.HasPrefix(l.Message, "[dev-") && l.Run == "" {
			t.Errorf("got %+v, want its run", l)
		}
		got = append(got, l)
	}
	for _, want := range []line{
		{Level: "info", Message: " running implementation", Run: run},
		{Level: "info", Message: `configuration: factory.stop_grace is "1s", it was "2s"`},
		{Level: "warn", Message: "the supervisor ended, killed by SIGKILL; it is started again"},
		{Level: "info", Message: " implementation cancelled", Run: run},
	} {
		found := false
		for _, l := range got {
			found = found || l.Level == want.Level && strings.Contains(l.Message, want.Message) && l.Run == want.Run
		}
		if !found {
			t.Errorf("want %+v in the log:\n%s", want, text)
		}
	}
}

// In systemd's journal each line has a priority and no time, because the journal has its own. A start that fails is an
// error there.
func TestLogInJournal(t *testing.T) {
	t.Parallel()
	script := `JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$@"`
	text, run := newTestForge(t).logged(t, []string{"sh", "-c", script, "sh"})
	form := regexp.MustCompile(`^<(3>\[ERROR\]|4>\[WARN\] |6>\[INFO\] ) [^0-9]`)
	for s := range strings.Lines(text) {
		if !form.MatchString(s) {
			t.Errorf("%q has no priority, or a time", s)
		}
	}
	for _, want := range []string{
		" running implementation: run=" + run, "<4>[WARN]  the supervisor ended, killed by SIGKILL",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in the log:\n%s", want, text)
		}
	}
	state := t.TempDir()
	if err := syscall.Mkfifo(state+"/journal.jsonl", 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, "sh", "-c", script, "sh", executable(t), "run", "--state", state)
	if code, said := r.wait(), r.read(r.stderr); code != exitFailed || !strings.Contains(said, "\n<3>[ERROR] ") ||
		!strings.Contains(said, "not a plain file") || strings.Contains(said, "disinto: ") {
		t.Errorf("a start that fails: got exit code %d and %q", code, said)
	}
}

// A format that does not exist is refused.
func TestLogFormatRefused(t *testing.T) {
	got := disinto(t.Context(), nil, "run", "--log-format", "xml", "--state", t.TempDir())
	want := "disinto: --log-format: there is no \"xml\", want text or json\n"
	if got.code != exitUsage || got.stderr != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// Each line of a text gets the priority, and a line of the init the same form as one of the supervisor.
func TestLineForm(t *testing.T) {
	for _, form := range []pid1.LineForm{{}, {JSON: true}, {Journal: true}, {JSON: true, Journal: true}} {
		for _, words := range []string{"two words", "\"<a>\"\t\\ \u00fc \x01\nsecond"} {
			q := &logQueue{form: form, queue: make(chan entry, 1)}
			newLog(q, form).Warn(words)
			own, init := string((<-q.queue).line), form.Line(noon, pid1.Warning, words)
			stamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)`)
			if a, b := stamp.ReplaceAllString(own, "T"), stamp.ReplaceAllString(init, "T"); !sameLine(a, b) {
				t.Errorf("%+v, %q: the supervisor prints %q, the init %q", form, words, a, b)
			}
		}
	}
}

// sameLine compares two lines, which may be objects in front of which is a priority.
func sameLine(a, b string) bool {
	object := func(s string) string {
		mark, text, _ := strings.Cut(s, "{")
		var m map[string]any
		if json.Unmarshal([]byte("{"+text), &m) != nil {
			return s
		}
		return mark + fmt.Sprint(m)
	}
	return object(a) == object(b)
}
