package forgetest

import (
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/supervisor"
)

// The interfaces are identical: the supervisor can use every client that passes Exercise, and every client of the
// supervisor can be passed to it. The same holds for desks and the built-in agent program.
var (
	_ supervisor.Forge = Forge(nil)
	_ Forge            = supervisor.Forge(nil)

	_ session.Desk = Desk(nil)
	_ Desk         = session.Desk(nil)
)
