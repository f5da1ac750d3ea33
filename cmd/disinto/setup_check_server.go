//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// saves checks that a thread's server can save conversations and that their folder is usable.
func (k *checker) saves(ctx context.Context, t *threads.Thread) {
	if t.Saved.Limit == 0 {
		return
	}
	folder := saved.Folder{Path: t.Saved.Folder, Limit: t.Saved.Limit}
	err := errors.Join(llama.New(t.BaseURL).Saves(ctx), folder.Check())
	files, _ := folder.List()
	if err != nil {
		k.addProblem("backends", fmt.Errorf("%s: kv_save: %w", t.Name, err))
		return
	}
	var bytes int64
	for _, f := range files {
		bytes += f.Bytes
	}
	k.addOK("backends", "%s: %s saved in %s: %s of %s", t.Name, control.Count(len(files), "conversation"), t.Saved.Folder,
		agents.Size(bytes), agents.Size(t.Saved.Limit))
}

// server checks that a llama-server suits the threads that use it. It skips other servers, which do not describe
// themselves.
func (k *checker) server(ctx context.Context, t *threads.Thread) {
	ctx, cancel := context.WithTimeout(ctx, backendTime)
	defer cancel()
	said, err := llama.New(t.BaseURL).Fetch(ctx, true)
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
	k.addOK("backends", "%s: %s", t.Name, strings.Join(about, ", "))
	k.saves(ctx, t)
	for _, line := range k.config.ServerProblems(t, &said) {
		k.addProblem("backends", errors.New(t.Name+": "+line))
	}
	for _, line := range k.config.ServerNotes(t, &said) {
		k.addNote("backends", t.Name+": "+line)
	}
}
