//go:build linux

package main

import (
	"context"
	"slices"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads/proof"
)

// readTime is how long check reads the open issues. With those of ten thousand that came by then it goes on.
const readTime = 30 * time.Second

// read takes in the open issues, whose labels and skills are in use. What keeps the forge from telling them was said
// already.
func (k *checker) read(ctx context.Context, client supervisor.Reader) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	facts, _ := client.Scan(ctx)
	k.open = facts.Issues
}

// proofs tells what can be proven of the configuration. A proof has the story of what Config.Problems says too, so that
// its line takes the place of the other.
func (k *checker) proofs(open []forge.Issue) {
	for _, f := range proof.Prove(k.config, open) {
		finding := screen.Finding{
			About: f.Claim, Problem: f.Weight == proof.Wrong, Note: f.Weight == proof.Hint, Text: f.Text, Story: f.Story,
		}
		k.found = slices.DeleteFunc(k.found, func(o screen.Finding) bool { return o.Problem && o.Text == f.Text })
		k.found = append(k.found, finding)
	}
}
