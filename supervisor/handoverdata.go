package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/services"
)

// HandoverVersion is the version of Handover that this image writes. An image reads all versions up to its own.
const HandoverVersion = 1

// Handover gives the next image of the program what the journal lacks: the running sessions and services. It holds no
// secret; the next image reads configuration and tokens again. Fields are added, never renamed or removed.
type Handover struct {
	Version  int                    `json:"version"`
	Started  time.Time              `json:"started"`  // the start of the first image
	Upgrades int                    `json:"upgrades"` // images before the next one
	Upkeep   control.UpkeepDocument `json:"upkeep"`
	Sessions []HandedSession        `json:"sessions"`           // by run id
	Services []HandedService        `json:"services,omitempty"` // by name
}

// HandedService is a service and its running command.
type HandedService struct {
	Service threads.Service `json:"service"`
	State   services.State  `json:"state"`
	Run     string          `json:"run,omitempty"` // the run id of its command; empty if none runs
	Step    int             `json:"step,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Stop    bool            `json:"stop,omitempty"` // the command is being ended
}

// HandedSession is a session whose program runs. The next image can end it even if its agent, role and thread are no
// longer configured.
type HandedSession struct {
	Session  threads.Session `json:"session"`
	Login    string          `json:"login"`   // of its agent
	Breaker  time.Duration   `json:"breaker"` // the thread's breaker_interval
	Grace    time.Duration   `json:"grace"`
	Reserved time.Time       `json:"reserved"`
	PID      int             `json:"pid"`
	Stop     threads.Reason  `json:"stop,omitzero"` // why the session is being ended
	Sandbox  string          `json:"sandbox,omitempty"`
}

// Runs returns the run ids of the sessions and services, sorted.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Session.RunID)
	}
	for i := range h.Services {
		if run := h.Services[i].Run; run != "" {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs
}

// Only removes every session and service whose run is not among runs. It keeps services without a run.
func (h *Handover) Only(runs []string) {
	other := func(s HandedSession) bool { return !slices.Contains(runs, s.Session.RunID) }
	h.Sessions = slices.DeleteFunc(h.Sessions, other)
	gone := func(s HandedService) bool { return s.Run != "" && !slices.Contains(runs, s.Run) }
	h.Services = slices.DeleteFunc(h.Services, gone)
}
