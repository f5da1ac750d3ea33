package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// program runs a program to its end and returns its output.
func program(t *testing.T, environ []string, argv ...string) string {
	t.Helper()
	r := start(t, environ, argv...)
	if code := r.wait(); code != 0 {
		t.Fatalf("%q: got exit code %d: %s", argv, code, r.read(r.stderr))
	}
	return r.read(r.stdout)
}

// entries returns the files of a tar archive by name.
func entries(t *testing.T, r io.Reader) map[string]*entryOf {
	t.Helper()
	all := make(map[string]*entryOf)
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")] = &entryOf{h, text}
	}
}

type entryOf struct {
	*tar.Header
	text []byte
}

func unpack(t *testing.T, path string) map[string]*entryOf {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	return entries(t, z)
}

// An image archive is an OCI layout with correct digests, can be read by docker load, and has the same bytes each
// time.
func TestImageArchive(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "program": "#!/bin/true\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	program(t, nil, "tar", "-C", root, "-cf", filepath.Join(dir, "root.tar"), "./etc")
	make := func(name string) string {
		out := filepath.Join(dir, name)
		program(t, []string{"SOURCE_DATE_EPOCH=1700000000"}, "../../docker/image.sh", filepath.Join(root, "program"), "arm64",
			"0.2.0", out, filepath.Join(dir, "root.tar"))
		return out
	}
	first, err1 := os.ReadFile(make("1.tar.gz"))
	second, err2 := os.ReadFile(make("2.tar.gz"))
	if err := errors.Join(err1, err2); err != nil || string(first) != string(second) {
		t.Errorf("two archives of the same files differ (%v)", err)
	}
	checkImage(t, filepath.Join(dir, "1.tar.gz"), "arm64", "0.2.0")
}

// checkImage checks an image archive from its index down to the program.
func checkImage(t *testing.T, path, arch, version string) {
	t.Helper()
	all := unpack(t, path)
	read := func(name string, to any) {
		t.Helper()
		e := all[name]
		if e == nil {
			t.Fatalf("the archive lacks %s", name)
		}
		if sum := fmt.Sprintf("blobs/sha256/%x", sha256.Sum256(e.text)); strings.HasPrefix(name, "blobs/") && sum != name {
			t.Errorf("%s: got the digest %s", name, sum)
		}
		if err := json.Unmarshal(e.text, to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	type descriptor struct {
		Digest   string
		Size     int
		Platform struct{ Architecture string }
	}
	blob := func(d descriptor) string {
		name := strings.Replace(d.Digest, "sha256:", "blobs/sha256/", 1)
		if all[name] == nil || len(all[name].text) != d.Size {
			t.Fatalf("%s is missing, or does not have %d bytes", name, d.Size)
		}
		return name
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Architecture string
		Config       struct{ Entrypoint, Cmd []string }
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	var old []struct {
		Config           string
		RepoTags, Layers []string
	}
	read("index.json", &index)
	read(blob(index.Manifests[0]), &manifest)
	read(blob(manifest.Config), &config)
	read("manifest.json", &old)
	if index.Manifests[0].Platform.Architecture != arch || config.Architecture != arch ||
		old[0].RepoTags[0] != "disinto:"+version ||
		old[0].Config != blob(manifest.Config) || !slices.Equal(config.Config.Entrypoint, []string{"disinto"}) {
		t.Errorf("got index %+v, config %+v, manifest %+v", index, config, old)
	}
	files := make(map[string]*entryOf)
	for i, layer := range manifest.Layers {
		if config.RootFS.DiffIDs[i] != layer.Digest || old[0].Layers[i] != blob(layer) {
			t.Errorf("layer %d: got digests %s, %s and %s, want the same", i, layer.Digest, config.RootFS.DiffIDs[i],
				old[0].Layers[i])
		}
		maps.Copy(files, entries(t, strings.NewReader(string(all[blob(layer)].text))))
	}
	for name, mode := range map[string]int64{
		"usr/local/bin/disinto": 0o755, "var/lib/disinto": 0o711, "etc/disinto": 0o711, "tmp": 0o1777, "home/agent": 0o755,
	} {
		if e := files[name]; e == nil || e.Mode&0o7777 != mode {
			t.Errorf("%s: got %+v, want mode %o", name, e, mode)
		}
	}
	passwd := string(files["etc/passwd"].text)
	if !strings.Contains(passwd, "root:x:0:0:") || !strings.Contains(passwd, "\nagent:x:10001:10001:") ||
		files["home/agent"].Uid != 10001 {
		t.Errorf("got the accounts\n%s", passwd)
	}
}

// A release has the files that its documentation promises, and its program reports the version.
func TestRelease(t *testing.T) {
	if !storms() {
		t.Skip("builds everything: make check runs it")
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		return program(t, nil, append([]string{"git", "-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"},
			args...)...)
	}
	program(t, nil, "git", "clone", "-q", "../..", dir)
	log := filepath.Join(dir, "CHANGELOG.md")
	text, err := os.ReadFile(log)
	if err == nil {
		text = []byte(strings.Replace(string(text), "## Unreleased",
			"## Unreleased\n\n## [0.2.0] - 2026-11-22\n\n- A bell.\n\n## 0.1.0", 1))
		err = os.WriteFile(log, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	git("commit", "-qam", "release")
	git("tag", "v0.2.0")
	environ := []string{"TARGETS=linux/amd64", "IMAGES=no", "GOFLAGS="}
	program(t, environ, filepath.Join(dir, "docker/release.sh"), filepath.Join(dir, "dist"))
	dist := filepath.Join(dir, "dist")
	got := program(t, nil, filepath.Join(dist, "disinto-0.2.0-linux-amd64"), "version")
	if !strings.HasPrefix(got, "disinto 0.2.0 (") {
		t.Errorf("got version %q", got)
	}
	if got, err := os.ReadFile(filepath.Join(dist, "NOTES.md")); err != nil ||
		strings.TrimSpace(string(got)) != "- A bell." {
		t.Errorf("got notes %q (%v)", got, err)
	}
	program(t, nil, "sh", "-c", "cd '"+dist+"' && sha256sum --check --quiet --strict SHA256SUMS")
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if n := strings.Count(string(sums), "\n"); err != nil || n != 3 {
		t.Errorf("got %d checksums (%v), want 3", n, err)
	}
	for _, name := range []string{
		"disinto.1", "disinto.bash", "disinto.zsh", "disinto.fish", "factory.schema.json",
		"factory.toml.example", "disinto.service", "LICENSE",
	} {
		if e := unpack(t, filepath.Join(dist, "disinto-0.2.0-files.tar.gz"))[name]; e == nil || len(e.text) == 0 {
			t.Errorf("the release lacks %s", name)
		}
	}
	var bill struct{ Components []struct{ PURL string } }
	raw, err := os.ReadFile(filepath.Join(dist, "disinto-0.2.0.cdx.json"))
	if err == nil {
		err = json.Unmarshal(raw, &bill)
	}
	modules := regexp.MustCompile(`(?m)^\tdep\t`).FindAllString(program(t, nil, "go", "version", "-m",
		filepath.Join(dist, "disinto-0.2.0-linux-amd64")), -1)
	if err != nil || len(modules) == 0 || len(bill.Components) != len(modules)+1 ||
		!strings.HasPrefix(bill.Components[0].PURL, "pkg:golang/stdlib@1.") {
		t.Errorf("the bill of materials: got %d of %d modules (%v)", len(bill.Components)-1, len(modules), err)
	}
	// A tag without notes cannot be released, nor can a changed tree.
	git("tag", "-d", "v0.2.0")
	git("tag", "v0.9.0")
	for want, spoil := range map[string]func(){
		`CHANGELOG.md has no section "## 0.9.0"`: func() {},
		"the tree has changes":                   func() { _ = os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600) },
	} {
		spoil()
		r := start(t, environ, filepath.Join(dir, "docker/release.sh"), filepath.Join(dir, "dist2"))
		if code := r.wait(); code == 0 || !strings.Contains(r.read(r.stderr), want) {
			t.Errorf("got exit code %d, %q, want %q", code, r.read(r.stderr), want)
		}
		_ = os.Remove(filepath.Join(dir, "stray"))
	}
}

// systemd accepts the unit.
func TestUnit(t *testing.T) {
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("found no systemd-analyze")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/disinto.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "disinto.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/disinto", self)),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, path, "verify", unit)
	if code := r.wait(); code != 0 || r.read(r.stderr) != "" {
		t.Errorf("got exit code %d: %s", code, r.read(r.stderr))
	}
	for _, want := range []string{"Delegate=yes", "KillMode=mixed", "TimeoutStopSec=15"} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
}
