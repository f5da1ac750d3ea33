package main

import (
	"os"
	"path/filepath"
	"testing"

	"codeberg.org/johba/disinto/supervisor/fleet"
)

// An export is a line with the time, and then the file's bytes unchanged.
func TestFleetExport(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fleet.FileName)
	got := disinto(t.Context(), nil, "fleet", "export", "--state", dir)
	want := "disinto: cannot export: there is no " + path + ": start a supervisor there, or use --state\n"
	if got.code != exitFailed || got.stdout != "" || got.stderr != want {
		t.Errorf("without a file: got %+v", got)
	}
	if err := os.WriteFile(path, []byte("{\"format\":1,\"agents\":[{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = disinto(t.Context(), nil, "fleet", "export", "--state", dir)
	want = "{\"exported_at\":\"2026-11-03T12:00:00Z\"}\n{\"format\":1,\"agents\":[{torn"
	if got.code != exitDone || got.stdout != want || got.stderr != "" {
		t.Errorf("got %+v, want %q", got, want)
	}
}
