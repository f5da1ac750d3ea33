package file

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

const exampleFile = "../../factory.toml.example"

var update = flag.Bool("update", false, "rewrite the golden files; read the diff before you commit it")

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dump formats a configuration, one line for each part. Secrets print as placeholders.
func dump(c *threads.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "forge %+v\nfactory %+v\n", c.Forge, c.Factory)
	for _, t := range c.Threads {
		fmt.Fprintf(&b, "thread %+v\n", t)
	}
	for _, a := range c.Agents {
		fmt.Fprintf(&b, "agent %+v\n", a)
	}
	for _, r := range c.Roles {
		fmt.Fprintf(&b, "role %+v\n", r)
	}
	fmt.Fprintf(&b, "routes %+v\nstealing %t\nfleet %+v\n", c.Routes, c.Stealing, c.Fleet)
	fmt.Fprintf(&b, "nomad %+v\n", c.Nomad)
	for _, s := range c.Secrets {
		fmt.Fprintf(&b, "secret %+v\n", s)
	}
	for _, p := range c.Problems() {
		fmt.Fprintf(&b, "problem %s\n", p)
	}
	return b.String()
}

// TestDecodeFiles decodes the unchanged file of the founding document, and the documented example.
func TestDecodeFiles(t *testing.T) {
	for name, file := range map[string]string{"seed": "testdata/decode/seed.toml", "example": exampleFile} {
		t.Run(name, func(t *testing.T) {
			c, err := Decode(file, read(t, file), inContainer)
			if err != nil {
				t.Fatal(err)
			}
			golden := "testdata/decode/" + name + ".golden"
			got := dump(c)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, golden), got); diff != "" {
				t.Errorf("run with -update if this is right (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExampleDefaults removes the # from every commented-out key of the example. Nothing may change, because these
// keys show the defaults.
func TestExampleDefaults(t *testing.T) {
	text := read(t, exampleFile)
	full := regexp.MustCompile(`(?m)^#(\w)`).ReplaceAllString(text, "$1")
	c, err := Decode(exampleFile, text, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Decode(exampleFile, full, inContainer)
	if err != nil {
		t.Fatalf("without the #: %v", err)
	}
	if diff := cmp.Diff(c, all); diff != "" {
		t.Errorf("a commented-out key is not the default (-commented +in force):\n%s", diff)
	}
}

// TestExampleHasEveryKey compares the keys of the example with those that the decoder reads.
func TestExampleHasEveryKey(t *testing.T) {
	full := regexp.MustCompile(`(?m)^#(\w)`).ReplaceAllString(read(t, exampleFile), "$1")
	noDefault := regexp.MustCompile(`(?m)^# (\[\[fleet|name =|ssh =|egress =|setup_egress =|acp =)`)
	full = noDefault.ReplaceAllString(full, "$1")
	var values map[string]any
	md, err := toml.Decode(full, &values)
	if err != nil {
		t.Fatal(err)
	}
	// asked returns the keys that the decoder reads from an empty table.
	asked := func(read func(*decoder, *table)) []string {
		d := &decoder{lookupEnv: inContainer, assigned: map[string]assignment{}}
		empty := &table{d: d, path: []string{"x", "dev-x"}}
		read(d, empty)
		return empty.known
	}
	for kind, keys := range map[string][]string{
		"forge":    asked((*decoder).readForge),
		"factory":  asked((*decoder).readFactory),
		"stealing": asked((*decoder).readStealing),
		"fleet":    append(asked((*decoder).readFleet), asked(func(d *decoder, t *table) { d.host(t) })...),
		"threads":  asked(func(d *decoder, t *table) { d.thread(t) }),
		"agents":   asked(func(d *decoder, t *table) { d.agent(t) }),
		"roles":    asked(func(d *decoder, t *table) { d.role(t, agents.Role{}) }),
	} {
		for _, key := range keys {
			if !slices.ContainsFunc(md.Keys(), func(k toml.Key) bool { return k[0] == kind && k[len(k)-1] == key }) {
				t.Errorf("the example does not explain %s of [%s]", key, kind)
			}
		}
	}
}
