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

// readTime limits the scan of open issues. check uses the issues that it has read by then.
const readTime = 30 * time.Second

// read reads the open issues, whose labels and skills proofs checks. It ignores errors, because labels has reported
// them.
func (k *checker) read(ctx context.Context, client supervisor.Reader) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	facts, _ := client.Scan(ctx)
	k.open = facts.Issues
}

// proofs adds the findings of the proofs. A proof replaces a problem of Config.Problems with the same text, because it
// also has the sequence of events.
func (k *checker) proofs(open []forge.Issue) {
	for _, f := range proof.Prove(k.config, open) {
		finding := screen.Finding{
			About: f.Claim, Problem: f.Weight == proof.Wrong, Note: f.Weight == proof.Hint, Text: f.Text, Story: f.Story,
		}
		k.found = slices.DeleteFunc(k.found, func(o screen.Finding) bool { return o.Problem && o.Text == f.Text })
		k.found = append(k.found, finding)
	}
}
