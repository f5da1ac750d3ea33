package supervisor

import (
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// Notifier notifies people of what they must do. Its methods may be called from several goroutines, and must not
// block.
type Notifier interface {
	// Saw receives the status after each change, at most once a second. It must not keep or change the document.
	Saw(d *control.Document)
	// Merged receives each pull request that the supervisor has merged.
	Merged(ref forge.Ref, title string)
	// Problems returns one line for each recipient that cannot be reached, for the status.
	Problems() []string
}
