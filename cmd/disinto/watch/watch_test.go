package watch

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff before you commit it")

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// runner records the command lines that a model runs.
type runner struct {
	lines   []string
	stopped int
}

func (r *runner) Run(id int, args ...string) (tea.Cmd, func()) {
	return func() tea.Msg {
		r.lines = append(r.lines, fmt.Sprint(id, " ", strings.Join(args, " ")))
		return nil
	}, func() { r.stopped++ }
}

// shown is a model with its runner and screen size.
type shown struct {
	t *testing.T
	r *runner
	m Model
}

func show(t *testing.T, width, height int, d *control.Document) *shown {
	r := new(runner)
	s := &shown{t, r, New(r, "", false)}
	s.tell(tea.WindowSizeMsg{Width: width, Height: height}, Second(noon), News{Doc: d, At: noon})
	return s
}

// tell sends messages, and runs the commands of the model.
func (s *shown) tell(messages ...tea.Msg) *shown {
	for _, msg := range messages {
		next, cmd := s.m.Update(msg)
		s.m = next.(Model)
		if _, tick := msg.(Second); cmd != nil && !tick {
			if _, quit := cmd().(tea.QuitMsg); quit {
				s.r.lines = append(s.r.lines, "quit")
			}
		}
	}
	return s
}

// keys types keys, separated by spaces.
func (s *shown) keys(names string) *shown {
	codes := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "tab": tea.KeyTab,
		"pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "end": tea.KeyEnd, "home": tea.KeyHome, "backspace": tea.KeyBackspace,
	}
	for name := range strings.FieldsSeq(names) {
		key := tea.Key{Code: codes[name]}
		switch {
		case name == "ctrl+c":
			key = tea.Key{Code: 'c', Mod: tea.ModCtrl}
		case name == "space":
			key = tea.Key{Text: " ", Code: tea.KeySpace}
		case key.Code == 0:
			key = tea.Key{Text: name, Code: []rune(name)[0]}
		}
		s.tell(tea.KeyPressMsg(key))
	}
	return s
}

// at moves the cursor to the first row that has a text in it.
func (s *shown) at(text string) *shown {
	s.t.Helper()
	s.keys("g")
	for range 500 {
		if r := s.m.chosen(); r != nil && strings.Contains(r.Text(), text) {
			return s
		}
		s.keys("down")
	}
	s.t.Fatalf("found no row with %q on\n%s", text, s.m.Screen())
	return s
}

func (s *shown) has(text string) *shown {
	s.t.Helper()
	if got := s.m.Screen(); !strings.Contains(got, text) {
		s.t.Errorf("got no %q on\n%s", text, got)
	}
	return s
}

func (s *shown) ran(line string) *shown {
	s.t.Helper()
	got := ""
	if n := len(s.r.lines); n > 0 {
		got = s.r.lines[n-1]
	}
	if got != line {
		s.t.Errorf("ran %q, want %q", got, line)
	}
	return s
}

func status(t *testing.T, name string) *control.Document {
	t.Helper()
	raw, err := os.ReadFile("../screen/testdata/status/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	d := new(control.Document)
	if err := json.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// crowd is a factory in which every group has more rows than a screen has lines.
func crowd(t *testing.T) *control.Document {
	d := status(t, "busy")
	for i := range 60 {
		q := control.QueueDocument{
			Repo: "johba/harb", Number: int64(100 + i), Kind: agents.KindIssue, Title: fmt.Sprint("Ring bell ", i),
			Why: "blocked by johba/harb#11", Since: noon.Add(-time.Duration(60-i) * time.Minute),
		}
		d.Queue = append(d.Queue, q)
		q.Number, q.NeedsPerson, q.Why, q.Mend = q.Number+100, true, "gave up after 5 attempts", "`disinto retry 12`"
		d.Unqueued = append(d.Unqueued, q)
		d.Agents = append(d.Agents, control.AgentDocument{
			Name: fmt.Sprintf("dev-%02d", i), Thread: "llama", State: control.AgentIdle, IdleSince: noon.Add(-time.Hour),
		})
		d.Recent = append(d.Recent, d.Recent[0])
	}
	return d
}

// TestScreens checks the screens of the table, of a page and of a question, at two sizes. Each has exactly as many
// lines as the terminal, and none is wider.
func TestScreens(t *testing.T) {
	gone := fmt.Errorf("%w on /var/lib/disinto", control.ErrNoSupervisor)
	screens := map[string]func(s *shown){
		"busy":     func(*shown) {},
		"crowd":    func(s *shown) { s.tell(News{Doc: crowd(t), At: noon}) },
		"waits":    func(s *shown) { s.tell(News{Doc: crowd(t), At: noon}).keys("4 pgdown down") },
		"filter":   func(s *shown) { s.tell(News{Doc: crowd(t), At: noon}).keys("/ B e l l space 1 enter s") },
		"typing":   func(s *shown) { s.keys("/ p a r s e r") },
		"trouble":  func(s *shown) { s.tell(News{Doc: status(t, "trouble"), At: noon}) },
		"services": func(s *shown) { s.tell(News{Doc: status(t, "services"), At: noon}).keys("3") },
		"empty":    func(s *shown) { s.tell(News{Doc: status(t, "empty"), At: noon}) },
		"hostile":  func(s *shown) { s.tell(News{Doc: status(t, "hostile"), At: noon}) },
		"cancel":   func(s *shown) { s.at("Read dependencies").keys("x") },
		"lost": func(s *shown) {
			s.tell(News{Doc: status(t, "busy"), At: noon.Add(-33 * time.Minute), Lost: gone}, Second(noon)).
				at("Read dependencies").keys("x")
		},
		"log": func(s *shown) {
			s.at("dev-qwen").keys("l")
			for i := range 100 {
				s.tell(Output{ID: 1, Text: fmt.Sprintf("11:%02d:00  line %d\n", i%60, i)})
			}
			s.tell(Output{ID: 1, Text: strings.Repeat("a long line ", 20)})
		},
		"keys":   func(s *shown) { s.keys("?") },
		"host":   func(s *shown) { s.keys("h") },
		"agents": func(s *shown) { s.keys("2") },
	}
	for name, do := range screens {
		for _, size := range [][2]int{{80, 24}, {120, 40}} {
			t.Run(fmt.Sprint(name, "-", size[0]), func(t *testing.T) {
				s := show(t, size[0], size[1], status(t, "busy"))
				do(s)
				got := s.m.Screen() + "\n"
				golden(t, fmt.Sprintf("testdata/%s-%d.txt", name, size[0]), got)
				if n := strings.Count(got, "\n"); n != size[1] {
					t.Errorf("got %d lines, want %d", n, size[1])
				}
				for line := range strings.Lines(got) {
					line = strings.TrimSuffix(line, "\n")
					if screen.Columns(line) > size[0] || line != strings.TrimRight(line, " ") {
						t.Errorf("got a line of %d columns, or with trailing spaces: %q", screen.Columns(line), line)
					}
				}
			})
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.FromSlash(path), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (go test -update rewrites it) (-want +got):\n%s", path, diff)
	}
}

// At any size of the terminal the screen fits it, and with 24 lines every group shows rows, waiting items above all.
func TestFits(t *testing.T) {
	for _, height := range []int{1, 3, 8, 12, 24, 50} {
		for _, width := range []int{20, 80, 200} {
			s := show(t, width, height, crowd(t))
			for _, keys := range []string{"", "G", "4 G", "0 ?", "esc / x"} {
				text := s.keys(keys).m.Screen()
				if n := strings.Count(text, "\n") + 1; n != height {
					t.Errorf("%dx%d after %q: got %d lines", width, height, keys, n)
				}
			}
			if height < 24 || width < 80 {
				continue
			}
			text := show(t, width, height, crowd(t)).m.Screen()
			for _, want := range []string{"NEEDS YOU", "AGENT ", "WAITS", "issue #12 ", "issue #100", "ENDED"} {
				if !strings.Contains(text, want) {
					t.Errorf("%dx%d: got no %q on\n%s", width, height, want, text)
				}
			}
		}
	}
}

// The cursor stays on its row while rows come and go, and every row of a group can be reached.
func TestCursor(t *testing.T) {
	d := crowd(t)
	s := show(t, 80, 24, d).keys("4").at("Ring bell 30:")
	d.Queue = d.Queue[10:]
	s.tell(News{Doc: d, At: noon}).has("> issue #130")
	d.Queue = d.Queue[:2]
	s.tell(News{Doc: d, At: noon}).has("> issue")
	s.keys("G up down home end").has("> issue")
	s.keys("0").at("Ring bell 6:").keys("end up up").has("> ")
	// The line that counts the rest opens the group.
	for range 100 {
		if s.keys("up"); strings.Contains(s.m.Screen(), "> and ") {
			break
		}
	}
	s.keys("enter").has("(0 shows everything)").has("q back").keys("q").ran("")
	if s.m.table.group != all {
		t.Error("q does not show all groups again")
	}
	groups := make(map[screen.Group]bool)
	for range 10 {
		groups[s.keys("tab").m.table.group] = true
	}
	if len(groups) != 5 { // without services
		t.Errorf("tab shows %d of all, needs you, agents, waits and ended", len(groups))
	}
}

func TestSorts(t *testing.T) {
	s := show(t, 120, 40, status(t, "busy")).keys("4")
	order := func(first, second string) {
		t.Helper()
		text := s.m.Screen()
		if i, j := strings.Index(text, first), strings.Index(text, second); i < 0 || j < i {
			t.Errorf("want %s before %s on\n%s", first, second, text)
		}
	}
	d := status(t, "busy")
	d.Queue = []control.QueueDocument{
		{Repo: "a/b", Number: 10, Kind: agents.KindIssue, Title: "b", Why: "z", Since: noon.Add(-time.Hour)},
		{Repo: "a/b", Number: 9, Kind: agents.KindIssue, Title: "C", Why: "y", Since: noon.Add(-time.Minute)},
		{Repo: "a/b", Number: 30, Kind: agents.KindIssue, Title: "a", Why: "x", Since: noon.Add(-2 * time.Hour)},
	}
	s.tell(News{Doc: d, At: noon})
	for _, want := range [][3]string{
		{"#10", "#9", "#30"}, {"#30", "#10", "#9"}, {"#9", "#10", "#30"}, {"#30", "#10", "#9"}, {"#30", "#9", "#10"},
	} {
		order("issue a/b"+want[0], "issue a/b"+want[1])
		order("issue a/b"+want[1], "issue a/b"+want[2])
		s.keys("s")
	}
}

// Each command asks first, and runs disinto's own command line. While nothing is live, commands are off.
func TestCommands(t *testing.T) {
	s := show(t, 120, 40, status(t, "busy"))
	s.at("Read dependencies").keys("x").has("Cancel johba/harb#11? Its session ends, and none starts. y/n")
	s.ran("").keys("n").has("nothing was done").ran("")
	s.keys("x y").ran("1 cancel -- johba/harb#11").has("asking the supervisor")
	s.keys("r").has("asking the supervisor") // one at a time
	s.tell(Output{ID: 1, Text: "johba/harb#11: session of dev-qwen ended\n"}, Ended{ID: 1})
	s.has("johba/harb#11: session of dev-qwen ended").keys("down")
	s.at("Read dependencies").keys("p").has("Pause dev-qwen?").keys("y").ran("2 pause -- dev-qwen")
	s.tell(Output{ID: 2, Text: "disinto: cannot"}, Ended{ID: 2, Code: 1}).has("disinto: cannot")
	s.at("Use the parser").keys("p").has("issue #12 has no agent to pause")
	s.keys("r y").ran("3 retry -- johba/harb#12").tell(Ended{ID: 3})
	s.keys("P y").ran("4 pause").tell(Ended{ID: 4})
	d := status(t, "busy")
	d.Paused, d.Agents[0].Paused, d.Agents[0].State = true, true, control.AgentHeld
	s.tell(News{Doc: d, At: noon}).keys("P y").ran("5 resume").tell(Ended{ID: 5})
	s.at(d.Agents[0].Name).keys("p y").ran("6 resume -- " + d.Agents[0].Name).tell(Ended{ID: 6})
	s.at("everything").keys("x").has("everything is no issue or pull request").keys("l").has("everything has no log")
	s.keys("r").keys("enter").has("disinto resume starts waiting work").keys("q")

	lost := News{Doc: d, At: noon.Add(-time.Minute), Lost: errors.New("the connection was refused")}
	s.at("Use the parser").keys("r").tell(lost).keys("y").ran("6 resume -- " + d.Agents[0].Name)
	s.has("no answer: last state of 11:59:00 UTC; commands are off")
	s.keys("r").has("off: no answer: last state of 11:59:00 UTC")
	s.tell(lost, Second(noon.Add(24*time.Hour))).has("no answer: last state of 2026-11-03 11:59:00 UTC")
	s.keys("q").ran("quit")
	show(t, 80, 24, d).keys("r ctrl+c").ran("quit")
}

// The answers of why and logs open as pages; a log follows its end until the person scrolls up.
func TestPages(t *testing.T) {
	s := show(t, 80, 24, status(t, "busy")).at("Use the parser").keys("enter").ran("1 why -- johba/harb#12")
	s.has("why issue #12").has("waiting for output").tell(Output{ID: 1, Text: "waits: blocked by #11\n"}, Ended{ID: 1})
	s.has("waits: blocked by #11").keys("/ z enter").tell(News{Doc: status(t, "busy"), At: noon})
	s.has("only with z").keys("esc esc").has("NEEDS YOU")
	if s.r.stopped != 1 {
		t.Errorf("got %d ended command lines, want 1", s.r.stopped)
	}
	s.at("dev-qwen").keys("l").ran("2 logs --follow --lines=1000 --session=a1 -- johba/harb#11")
	prints := func(from, to int) {
		for i := from; i < to; i++ {
			s.tell(Output{ID: 2, Text: fmt.Sprintf("line %d", i)}, Output{ID: 2, Text: " ends\n"})
		}
	}
	prints(0, 100)
	s.has("following").has("line 99 ends").keys("pgup")
	prints(100, 110)
	s.has("lines ").has("line 80 ends").keys("G").has("line 109 ends").has("following")
	prints(110, 111)
	s.has("line 110 ends").keys("/ 1 0 7 enter").has("line 107 ends").keys("esc").has("line 110 ends")
	s.tell(Output{ID: 2, Text: strings.Repeat("more\n", 2*kept)})
	if n := len(s.m.page.lines); n > kept {
		t.Errorf("a page keeps %d lines, want at most %d", n, kept)
	}
	s.tell(Ended{ID: 2}).keys("q").has("NEEDS YOU").tell(Output{ID: 2, Text: "late\n"}).has("NEEDS YOU")
	// Back from a page, the filter, the order and the chosen row are what they were.
	s.keys("s s / # 1 enter").at("issue #12")
	for _, key := range []string{"w", "l", "?", "h"} {
		was := s.m.Screen()
		s.keys(key + " / x enter esc q")
		if got := s.m.Screen(); got != was {
			t.Errorf("after %s the screen is\n%s, want\n%s", key, got, was)
		}
	}
}

// A document other than the status is a page that scrolls. Without a supervisor the screen says so.
func TestDocument(t *testing.T) {
	s := &shown{t, new(runner), New(new(runner), "", false)}
	s.has("asking the supervisor").tell(Second(noon), News{Lost: errors.New("cannot ask it")}).has("cannot ask it")
	text := func(v screen.View) string { return strings.Repeat(fmt.Sprintln("wide", v.Width), 50) + "the end\n" }
	s.tell(News{Text: text, At: noon}).has("wide 80").keys("G").has("the end").tell(Second(noon)).has("the end")
	s.tell(tea.WindowSizeMsg{Width: 100, Height: 30}).has("wide 100").keys("esc").has("wide 100")
	s.keys("q")
	if n := len(s.r.lines); n != 1 || s.r.lines[0] != "quit" {
		t.Errorf("q: got %q, want the end", s.r.lines)
	}
}

// Without keys, as in the demo, the whole screen shows the factory.
func TestDeaf(t *testing.T) {
	s := &shown{t, new(runner), New(nil, "", false)}
	s.tell(Above("demo: 3 of 8 merged\n"), News{Doc: status(t, "busy"), At: noon}).has("demo: 3 of 8 merged\n")
	if got := s.m.Screen(); strings.Contains(got, "quit") || strings.Count(got, "\n") != 23 {
		t.Errorf("got the screen\n%s", got)
	}
}
