package simtest

import (
	"context"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff before it is committed")

// The golden files have times. The virtual clock would have the machine's zone.
func init() { time.Local = time.UTC }

// The hub's file and answers about its fleet stay the same, byte for byte: hubs read other hosts' files across
// versions, and programs read the answers.
func TestFleetGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{answer: func() ([]byte, error) { return says("other", threads.LoadActive, Repo+"#9"), nil }}
		w, _ := hubWorld(t, 9, f)
		loom := threads.Host{Name: "loom", User: "disinto", Address: "loom.lan", Port: 2222}
		w.Config.Fleet.Hosts = append(w.Config.Fleet.Hosts, loom)
		w.Config.Agents[0].Skills, w.Config.Agents[3].Token = []string{"go", "sql"}, ""
		l := w.Start(func(l *Life) {
			l.ReadHost = func(ctx context.Context, h threads.Host) ([]byte, error) {
				if h.Name == "loom" {
					return nil, errors.New("ssh: exit status 255: No route to host")
				}
				return f.read(ctx, h)
			}
		})
		at := func(method, path, body, file string) {
			t.Helper()
			answer := httptest.NewRecorder()
			l.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
			goldenFleet(t, l, file, answer.Body.String())
		}
		written := func(file string) {
			t.Helper()
			text, err := os.ReadFile(filepath.Join(w.Dir, fleet.FileName))
			if err != nil {
				t.Error(err)
			}
			goldenFleet(t, l, file, string(text))
		}
		time.Sleep(4*time.Minute + 3*time.Second)
		written("idle.json")
		at("POST", "/v1/fleet/rebalance", `{"dry_run":true}`, "cycle-dry.json")
		at("POST", "/v1/fleet/rebalance", `{"dry":true}`, "cycle-refused.json")
		time.Sleep(90 * time.Second)
		written("working.json")
		at("GET", "/v1/fleet", "", "status.json")
		time.Sleep(time.Hour)
		written("worked.json")
		at("POST", "/v1/fleet/rebalance", `{}`, "cycle.json")
		l.Stop()
	})
}

var fractions = regexp.MustCompile(`(T..:..:..)\.[0-9]+`)

// goldenFleet compares a document with its file. It replaces the random instance id, and cuts times to seconds, as
// the number of calls in between does not matter.
func goldenFleet(t *testing.T, l *Life, file, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, l.Instance(), "INSTANCE")
	got = fractions.ReplaceAllString(got, "$1")
	path := filepath.Join("testdata", "fleet", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (go test -update rewrites it) (-want +got):\n%s", path, diff)
	}
}
