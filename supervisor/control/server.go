package control

import (
	"fmt"
	"strings"
	"time"
)

// ServerDocument is the inference server of a local thread, as last observed.
type ServerDocument struct {
	SeenAt  time.Time `json:"seen_at"`
	Model   string    `json:"model,omitempty"`
	Context int       `json:"context,omitempty"` // of a slot, in tokens; left out if unknown
	Slots   int       `json:"slots,omitempty"`
	Asleep  bool      `json:"asleep,omitempty"` // it has unloaded its model
	// Now is the speed of a working slot in the last five minutes, and Hour in the last hour.
	Now  SpeedDocument `json:"now"`
	Hour SpeedDocument `json:"hour"`
	// Deferred counts the requests that wait for a slot; null if the server does not count them.
	Deferred *int                 `json:"deferred"`
	At       []ServerSlotDocument `json:"at,omitempty"` // its slots
	Problems []string             `json:"problems,omitempty"`
}

// SpeedDocument is in tokens per second; null where it is unknown.
type SpeedDocument struct {
	Read    *float64 `json:"read"`
	Written *float64 `json:"written"`
}

// ServerSlotDocument is one slot of a server, with its speed in the last minute. Its index is the server's: the
// server decides in which slot it runs a session.
type ServerSlotDocument struct {
	Index int   `json:"index"`
	Busy  bool  `json:"busy"`
	Held  int64 `json:"held,omitempty"` // tokens in its cache
	SpeedDocument
}

// Line describes the server in words.
func (s *ServerDocument) Line() string {
	parts := []string{
		"reads " + PerSecond(s.Now.Read) + " (in an hour " + PerSecond(s.Hour.Read) + ")",
		"writes " + PerSecond(s.Now.Written) + " (in an hour " + PerSecond(s.Hour.Written) + ")",
	}
	for _, slot := range s.At {
		if slot.Read != nil || slot.Written != nil {
			parts = append(parts, fmt.Sprintf("slot %d reads %s and writes %s", slot.Index, PerSecond(slot.Read),
				PerSecond(slot.Written)))
		}
	}
	if s.Deferred != nil {
		parts = append(parts, Count(*s.Deferred, "request")+" waiting")
	}
	if s.Model != "" {
		parts = append([]string{s.Model}, parts...)
	}
	if s.Asleep {
		parts = append(parts, "asleep")
	}
	return strings.Join(append(parts, s.Problems...), "; ")
}

// PerSecond formats a speed in tokens; "-" if it is unknown.
func PerSecond(speed *float64) string {
	switch {
	case speed == nil:
		return "-"
	case *speed < 10:
		return fmt.Sprintf("%.1f/s", *speed)
	}
	return fmt.Sprintf("%.0f/s", *speed)
}
