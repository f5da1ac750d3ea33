package ledger

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads/services"
)

// Service records a service: its state, and the run id of its command, before that is ordered. The next supervisor
// continues the command. The newest record of a service counts.
type Service struct {
	Name string `json:"name"`
	// Life is when the init started under which this was recorded. With another init, nothing of the service runs.
	Life time.Time `json:"life"`
	// Run is empty while no command runs. Program says that it is the service's own program, and not a command before it;
	// Step is how many of those have succeeded.
	Run        string         `json:"run,omitempty"`
	Step       int            `json:"step,omitempty"`
	Program    bool           `json:"program,omitempty"`
	PID        int            `json:"pid,omitempty"`        // of its command, once that runs
	Definition string         `json:"definition,omitempty"` // digest of the definition with which it runs
	State      services.State `json:"state"`
	Gone       bool           `json:"gone,omitempty"` // it is not configured any more, and has ended
}

func (r *Service) valid() bool { return r.Name != "" && r.Step >= 0 && (r.Gone || r.State.Phase != "") }

func (r *Service) apply(s *State, _ time.Time) {
	if r.Gone {
		delete(s.Services, r.Name)
	} else {
		s.Services[r.Name] = *r
	}
}

// compactServices is Compact for services.
func (s *State) compactServices(now time.Time) []Record {
	var list []Record
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		list = append(list, Record{At: now, Service: new(s.Services[name])})
	}
	return list
}
