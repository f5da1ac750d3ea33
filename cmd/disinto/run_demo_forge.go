//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/process"
)

// demoForge is the embedded forge in its own process.
type demoForge struct {
	forgeReady
	end func() // returns when the forge has ended
}

// startForge starts the forge and waits until it answers. The forge ends when its stdin is closed, at the latest when
// this process ends.
func (d *demoRun) startForge(ctx context.Context) (*demoForge, error) {
	input, holdsOpen := io.Pipe()
	answer, says := io.Pipe()
	var complaint bytes.Buffer
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := d.reaper.Run(ctx, process.Cmd{
			Argv:  []string{d.self, localforgeName, "--dir", filepath.Join(d.dir, "forge")},
			Env:   d.c.environ,
			Stdin: input, Stdout: says, Stderr: &complaint,
		})
		says.CloseWithError(io.EOF)
		ended <- withStderr(err, complaint.String())
	}()
	f := &demoForge{end: func() {
		cancel()
		<-ended
		holdsOpen.Close()
	}}
	if err := json.NewDecoder(answer).Decode(&f.forgeReady); err != nil {
		cancel()
		holdsOpen.Close()
		if why := <-ended; why != nil {
			err = why
		}
		return nil, fmt.Errorf("cannot start the demo's forge: %w", err)
	}
	return f, nil
}
