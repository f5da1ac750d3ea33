package supervisor

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"codeberg.org/johba/disinto/forge"
)

// This file remembers who wrote which command. An account that may write can edit another's comment,
// and Forgejo's times are whole seconds: an edit within the second in which the comment was written does not show, so
// the comment may contain an agent's command in a person's name. A signed web hook has what the person wrote.

// maxWritten bounds the comments of web hooks that are remembered.
const maxWritten = 1000

// proof is what is known about who wrote a command.
type proof int

const (
	unknown  proof = iota // no web hook has said so far
	unproven              // its author has to confirm it
	proven                // it is carried out
)

// written remembers what web hooks said of new comments. After a restart it is empty: commands from before are then
// confirmed.
type written struct {
	mu  sync.Mutex                  // guards sum
	sum map[int64][sha256.Size]byte // of what a comment's author wrote, by comment
}

// sumOf has a fixed size, because a stranger's words may be a megabyte long.
func sumOf(said *forge.CommandComment) [sha256.Size]byte {
	c := said.Command
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t %q", said.Author, c.Verb, c.Args, c.More, c.Text))
}

// add remembers a comment of a web hook. The first hook of a comment counts.
func (w *written) add(said forge.CommandComment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sum == nil {
		w.sum = make(map[int64][sha256.Size]byte)
	}
	if _, known := w.sum[said.ID]; !known {
		w.sum[said.ID] = sumOf(&said)
	}
	if len(w.sum) > maxWritten {
		delete(w.sum, slices.Min(slices.Collect(maps.Keys(w.sum))))
	}
}

// proofOf compares a command with the web hook of its comment. If they differ, somebody has edited the comment.
func (w *written) proofOf(said *forge.CommandComment) proof {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch sum, known := w.sum[said.ID]; {
	case !known:
		return unknown
	case sum == sumOf(said):
		return proven
	}
	return unproven
}
