package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// A reader that hangs loses lines but never delays the writer, and gets the number of lost lines.
func TestOutlet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := newLogQueue(w, pid1.LineForm{})
		for i := range logQueueLength + 11 {
			if i == 1 {
				synctest.Wait() // the first line is being written
			}
			_, _ = fmt.Fprintf(o, "line %d\n", i)
		}
		o.flush() // times out
		go func() {
			o.flush()
			_ = w.Close()
		}()
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(lines) != logQueueLength+2 || lines[0] != "line 0" ||
			!strings.HasSuffix(lines[1], " 10 log lines were lost: the reader of the log was too slow") {
			t.Errorf("got %d lines, the first are %q", len(lines), lines[:2])
		}
		close(o.queue)
	})
}
