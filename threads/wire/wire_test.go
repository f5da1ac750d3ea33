package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/filltest"
)

var update = flag.Bool("update", false, "add fields to testdata/format.txt")

// whole returns a value in which every field, list and map is set. A field that JSON leaves out fails the test.
func whole[T any](t *testing.T) *T {
	t.Helper()
	v := new(T)
	n := int64(1) << 62 // more than a float64 keeps
	f := filltest.Filler{
		Next: func() int64 { n++; return n },
		Len:  func() int { return 2 },
		Leave: func(of reflect.Type, field *reflect.StructField) bool {
			left := !field.IsExported() || field.Tag.Get("json") == "-"
			if left {
				t.Errorf("%s.%s is not encoded: another build decides without it", of, field.Name)
			}
			return left
		},
	}
	f.Fill(reflect.ValueOf(v).Elem())
	return v
}

// TestEveryFieldComesBack checks that every field is restored, except the texts of the forge and secrets. A new field
// of a snapshot or a plan that is not encoded fails here.
func TestEveryFieldComesBack(t *testing.T) {
	s := whole[threads.Snapshot](t)
	text, err := EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	want := *s
	want.Facts = bare(s.Facts)
	config := *s.Config
	want.Config, config.Secrets, config.Notify = &config, nil, threads.Notify{}
	isSecret := cmp.Transformer("secret", func(s agents.Secret) bool { return s != "" })
	if diff := cmp.Diff(&want, got, isSecret); diff != "" {
		t.Error(diff)
	}
	p := whole[threads.Plan](t)
	text, err = EncodePlan(p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodePlan(text)
	if diff := cmp.Diff(p, back); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestNothingComesBackAsNothing checks that a missing list or map is not restored as an empty one.
func TestNothingComesBackAsNothing(t *testing.T) {
	for _, s := range []*threads.Snapshot{{}, {Config: &threads.Config{}, History: threads.NewHistory()}} {
		text, err := EncodeSnapshot(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeSnapshot(text)
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}

// TestNoSecretLeaves checks that a snapshot has no value of a secret, wherever it is in the configuration.
func TestNoSecretLeaves(t *testing.T) {
	const token = `5up3r"secret<value>`
	c := whole[threads.Config](t)
	c.Secrets = []agents.SecretVar{{Name: "TOKEN", Value: token}}
	for _, s := range []*agents.Secret{
		&c.Forge.Token, &c.Forge.WebhookSecret, &c.Factory.ListenToken, &c.Agents[0].Token, &c.Nomad.Token,
		&c.Notify.To[0].URL,
	} {
		*s = token
	}
	c.Threads[0].BaseURL = "http://user:" + token + "@host/v1"
	c.Services[0].Command = []string{"serve", "--key=" + token}
	c.Roles[0].Command = []string{"dev", token}
	c.Agents[1].Token = "" // a missing token must remain visible
	text, err := EncodeSnapshot(&threads.Snapshot{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"5up3r", "secret<value", `secret\u003cvalue`} {
		if bytes.Contains(text, []byte(part)) {
			t.Errorf("the snapshot has the secret's part %s: %s", part, text)
		}
	}
	got, err := DecodeSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	if got.Config.Agents[0].Token == "" || got.Config.Agents[1].Token != "" {
		t.Errorf("got tokens %q and %q, want a placeholder and none", got.Config.Agents[0].Token.Reveal(),
			got.Config.Agents[1].Token.Reveal())
	}
	if c.Agents[0].Token.Reveal() != token || c.Services[0].Command[1] != "--key="+token {
		t.Error("EncodeSnapshot changed the configuration")
	}
}

// TestFormat checks that the format only grows: a build reads the documents of newer and older builds. A field that
// is renamed in Go keeps its old name in a JSON tag. The numbers of the forge's states are part of the format.
func TestFormat(t *testing.T) {
	lines := map[string]bool{}
	for name, encode := range map[string]func() ([]byte, error){
		"snapshot": func() ([]byte, error) { return EncodeSnapshot(whole[threads.Snapshot](t)) },
		"plan":     func() ([]byte, error) { return EncodePlan(whole[threads.Plan](t)) },
	} {
		text, err := encode()
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		note(lines, name, tree)
	}
	for name, n := range map[string]int{
		"open": int(forge.BlockerOpen), "closed": int(forge.BlockerClosed), "cancelled": int(forge.BlockerCancelled),
		"unmerged": int(forge.BlockerUnmerged), "missing": int(forge.BlockerMissing),
		"unreadable": int(forge.BlockerUnreadable),
		"clean":      int(forge.MergeClean), "not clean": int(forge.MergeNotClean),
		"ci pending": int(forge.CIPending), "ci success": int(forge.CISuccess), "ci failure": int(forge.CIFailure),
		"approved": int(forge.Approved), "changes requested": int(forge.ChangesRequested),
	} {
		lines[fmt.Sprintf("value %s = %d", name, n)] = true
	}
	path := filepath.Join("testdata", "format.txt")
	text, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !lines[strings.TrimSpace(line)] {
			t.Errorf("the format lost %s: other builds write or read it", strings.TrimSpace(line))
		}
		delete(lines, strings.TrimSpace(line))
	}
	more := slices.Sorted(maps.Keys(lines))
	if !*update && len(more) > 0 {
		t.Errorf("new in the format, add with -update: %q", more)
	}
	if *update && !t.Failed() {
		all := slices.Concat(slices.Collect(strings.Lines(string(text))), addNewlines(more))
		slices.Sort(all)
		if err := os.WriteFile(path, []byte(strings.Join(all, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func addNewlines(lines []string) []string {
	for i := range lines {
		lines[i] += "\n"
	}
	return lines
}

// note collects the paths of a document with the types of their values. Names of threads and the like become *.
func note(lines map[string]bool, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if strings.HasPrefix(name, "text-") {
				name = "*"
			}
			note(lines, at+"."+name, value)
		}
	case []any:
		for _, value := range v {
			note(lines, at+"[]", value)
		}
	default:
		lines[strings.Replace(fmt.Sprintf("%s %T", at, v), "float64", "number", 1)] = true
	}
}

// TestUnknownFields checks that fields of a newer build are ignored.
func TestUnknownFields(t *testing.T) {
	s, err := DecodeSnapshot([]byte(`{"Now":"2026-11-23T01:02:03Z","Moon":{"Phase":3},"Facts":{"Repos":[{"Name":"o/r","Age":7}]}}`))
	if err != nil || s.Facts.Repos[0].Name != "o/r" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestBadDocuments(t *testing.T) {
	for _, text := range []string{``, `[]`, `{"Now":1}`, `{"Config":[]}`, `{"Facts":{"Repos":{}}}`} {
		if s, err := DecodeSnapshot([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "cannot decode a snapshot") {
			t.Errorf("%s: got %+v, %v", text, s, err)
		}
	}
	long := `{"Marks":[` + strings.Repeat("{},", MaxItems) + `{}]}`
	for _, text := range []string{``, `[]`, long, `{"Holds":[null]}`, `{"Holds":[{}]}`, `{"Unqueued":[{"Reason":null}]}`} {
		if p, err := DecodePlan([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "cannot decode a plan") {
			t.Errorf("%.40s: got %+v, %v", text, p, err)
		}
	}
}

// FuzzDecode checks that a document of another program is refused, or is the same after it was written and read
// again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"Holds":[{"Kind":"issue","Repo":"o/r","Number":1,"Reason":{"Code":"blocked"}}]}`))
	f.Add([]byte(`{"Config":{"Name":"f"},"History":{"Chains":[{"Key":{"Repo":"o/r","Number":1},"Value":{"ci_fixes":1}}]}}`))
	f.Add([]byte(`{"History":{"Chains":[{},{"Value":null}],"Slots":[null]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := DecodeSnapshot(text); err == nil {
			again, err := EncodeSnapshot(s)
			if err != nil {
				t.Skip(err) // a time beyond the year 9999
			}
			if _, err := DecodeSnapshot(again); err != nil {
				t.Errorf("cannot decode a snapshot that was decoded and encoded: %v", err)
			}
		}
		if p, err := DecodePlan(text); err == nil {
			again, err := EncodePlan(p)
			if err != nil {
				t.Skip(err)
			}
			if back, err := DecodePlan(again); err != nil || !reflect.DeepEqual(p, back) {
				t.Errorf("a plan that was decoded and encoded became %+v, error %v", back, err)
			}
		}
	})
}
