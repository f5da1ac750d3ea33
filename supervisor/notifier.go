package supervisor

import (
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// Notifier notifies people of what they must do. Its methods may be called from several goroutines, and must not
// block.
type Notifier interface {
	// RecordStatus receives the status after each change, at most once a second. It must not keep or change the document.
	RecordStatus(d *control.Document)
	// RecordMerge receives each pull request that the supervisor has merged.
	RecordMerge(ref forge.Ref, title string)
	// Problems returns one line for each recipient that cannot be reached, for the status.
	Problems() []string
}
