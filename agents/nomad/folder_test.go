package nomad

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// TestFolder: the node has the files that a command names.
func TestFolder(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job(`cat "$0/dev.md" >$T/got`)
		job.Command = append(job.Command, "/no/such/prompts")
		b.exec.Folder = func(command []string) (*Folder, error) {
			return &Folder{Path: command[len(command)-1], Files: map[string]string{"dev.md": "be brief"}}, nil
		}
		b.want(b.exec.Run(b.Context(), job, nil), agents.Done, "", 1)
		if text, err := os.ReadFile(filepath.Join(b.dir, "got")); string(text) != "be brief" {
			b.Errorf("the program read %q, %v", text, err)
		}
	})
}

// TestFolderBad: unreadable or too large files prevent a session from starting, and file names cannot be paths.
func TestFolderBad(t *testing.T) {
	b := newBench(t)
	for reason, f := range map[string]func([]string) (*Folder, error){
		"not a directory": func([]string) (*Folder, error) { _, err := os.ReadDir("/dev/null"); return nil, err },
		"too long": func([]string) (*Folder, error) {
			return &Folder{Files: map[string]string{"dev.md": strings.Repeat("x", maxOrder)}}, nil
		},
	} {
		b.exec.Folder = f
		b.want(b.exec.Run(t.Context(), b.job("true"), nil), agents.NoPlace, reason, 0)
	}
	p := SessionRun{Environ: []string{"NOMAD_TASK_DIR=" + t.TempDir()}}
	for _, name := range []string{"../x", "a/b", "", "..", "/x"} {
		if command, err := p.unpackFolder(&Folder{Files: map[string]string{name: ""}}, nil); err == nil {
			t.Errorf("unfold of the file name %q = %q, want an error", name, command)
		}
	}
}

// TestOrderFormats: an order has the lowest possible format, so that nodes with the previous version run it too.
func TestOrderFormats(t *testing.T) {
	o := &Order{Format: plainFormat}
	if o.addFolder(nil); o.Format != 1 {
		t.Errorf("a plain order has the format %d", o.Format)
	}
	if o.addFolder(&Folder{}); o.Format != 2 {
		t.Errorf("an order with a folder has the format %d", o.Format)
	}
	for _, text := range []string{`{}`, `{"Format":3}`, `{"Format":-1}`} {
		if _, err := parseOrder([]byte(text)); err == nil {
			t.Errorf("parseOrder(%s) returned no error", text)
		}
	}
}
