package supervisor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// core is what the subjects share: the state, the line to the forge, the log, the kicks that wake the loops, and the
// guard around every goroutine. Each subject, such as the convoys, has a type of its own that embeds a *core.
type core struct {
	state    *state
	forge    line
	log      hclog.Logger
	problems problems
	kicks    kicks
	events   control.Feed
	asked    control.Asked
	gate     gate
	// measureRoom measures the free memory and disk of this machine; nil if they are not measured.
	measureRoom func() threads.Room

	id      atomic.Pointer[string] // see Instance
	until   context.Context        // Run's: done when the supervisor must stop
	base    context.Context        // outlives until: for sessions, their releases, merges and marks
	running sync.WaitGroup         // sessions, chores and commands
	loops   sync.WaitGroup
	changed chan struct{} // the status file is out of date
	touches atomic.Int64  // counts changes of the status
}

// Instance returns the id of the state directory; "" before Run has read it. Every run id starts with it. Functions
// that Run calls may call Instance.
func (c *core) Instance() string {
	if id := c.id.Load(); id != nil {
		return *id
	}
	return ""
}

// room measures the room of this machine; nil if it is not measured.
func (c *core) room() *threads.Room {
	if c.measureRoom == nil {
		return nil
	}
	r := c.measureRoom()
	return &r
}
