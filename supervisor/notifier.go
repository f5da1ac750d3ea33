package supervisor

import (
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// Notifier tells people what needs them. Its methods may be called from several goroutines, and must not wait.
type Notifier interface {
	// Saw is called with the status after each change, at most once a second. It must not keep or change the document.
	Saw(d *control.Document)
	// Merged is called with each pull request that the supervisor has merged.
	Merged(ref forge.Ref, title string)
	// Problems says to whom nothing can be sent, a line each, for the status.
	Problems() []string
}
