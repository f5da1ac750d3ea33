// Package finish runs the command that package pid1 has started to its end, if there is one, in place of the rest of the
// program. It is a package of its own because what it imports is initialised 3 ms later than pid1.
package finish

import (
	"runtime/debug"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

func init() {
	pid1.Finish(func() {
		// Nothing that is done often allocates. The collector would wake up every two minutes to find that out.
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(8 << 20)
	})
}
