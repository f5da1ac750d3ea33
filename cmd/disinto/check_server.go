//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents/llama"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// server asks a llama-server whether it suits the threads that use it. Any other server says nothing of itself.
func (k *checker) server(ctx context.Context, t *threads.Thread) {
	ctx, cancel := context.WithTimeout(ctx, backendTime)
	defer cancel()
	said, err := llama.New(t.BaseURL).Look(ctx)
	if err != nil {
		return
	}
	about := []string{control.Count(said.Slots, "slot")}
	if said.Model != "" {
		about = append([]string{said.Model}, about...)
	}
	if said.Context > 0 {
		about = append(about, fmt.Sprintf("%d tokens of context each", said.Context))
	}
	if said.PerToken > 0 {
		about = append(about, fmt.Sprintf("%d bytes a token", said.PerToken))
	}
	k.well("backends", "%s: %s", t.Name, strings.Join(about, ", "))
	for _, line := range k.config.ServerProblems(t, &said) {
		k.problem("backends", errors.New(t.Name+": "+line))
	}
	for _, line := range k.config.ServerNotes(t, &said) {
		k.note("backends", t.Name+": "+line)
	}
}
