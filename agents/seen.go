package agents

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Seen holds what an executor observed of a session's processes, for the receipt.
type Seen struct {
	// Programs counts the processes that ran during at least one observation, and names their programs, without
	// arguments, which can be secrets.
	Programs Sighting `json:"programs"`
	// Hosts names the addresses to which a process was connected during an observation, such as 192.0.2.1:443.
	Hosts Sighting `json:"hosts"`
	// Files counts the files outside the workspace, in folders that the sandbox makes writable, that changed while the
	// session ran.
	Files Sighting `json:"files"`
}

// Sighting is a count of observed things, with some of their names.
type Sighting struct {
	Count   *int64 `json:"count"`              // nil if unknown, which is not 0
	Unknown string `json:"unknown,omitempty"`  // why the count is unknown
	AtLeast bool   `json:"at_least,omitempty"` // the real number may be larger
	// Names are distinct and sorted. Cut says that some are missing.
	Names []string `json:"names,omitempty"`
	Cut   bool     `json:"cut,omitempty"`
}

// Bounds on the names in a Sighting. A session's document with the maximum of names uses a tenth of its own bound.
const (
	MaxNames = 64
	maxName  = 160 // bytes
)

// NotSeen is a sighting with an unknown count.
func NotSeen(why string) Sighting { return Sighting{Unknown: oneLine(why)} }

// Sight is a sighting of count things, some of which have these names.
func Sight(count int64, names []string) Sighting {
	s := Sighting{Count: &count}
	for _, name := range names {
		if name = nameOf(name); name != "" {
			s.Names = append(s.Names, name)
		}
	}
	slices.Sort(s.Names)
	s.Names = slices.Compact(s.Names)
	if s.Cut = len(s.Names) > MaxNames; s.Cut {
		s.Names = slices.Clip(s.Names[:MaxNames])
	}
	return s
}

// nameOf makes a name that an agent chose printable and short. It keeps the end, which says more than the beginning.
func nameOf(name string) string {
	if len(name) > 4*maxName {
		name = name[len(name)-4*maxName:]
	}
	name = oneLine(name)
	if len(name) <= maxName {
		return name
	}
	from := len(name) - maxName + len("…")
	for !utf8.RuneStart(name[from]) {
		from++
	}
	return "…" + name[from:]
}

// Bounded returns another machine's observation with valid numbers and names. It returns nil for nil.
func (s *Seen) Bounded() *Seen {
	if s == nil {
		return nil
	}
	return &Seen{s.Programs.bounded(), s.Hosts.bounded(), s.Files.bounded()}
}

func (s Sighting) bounded() Sighting {
	if s.Count == nil {
		return NotSeen(s.Unknown)
	}
	b := Sight(max(*s.Count, 0), s.Names)
	b.AtLeast, b.Cut = s.AtLeast, s.Cut || b.Cut
	return b
}

// Redact returns the observation without secrets in the names. It returns nil for nil.
func (s *Seen) Redact(secrets []string) *Seen {
	if s == nil {
		return nil
	}
	r := *s
	for _, part := range []*Sighting{&r.Programs, &r.Hosts, &r.Files} {
		names := part.Names
		part.Names = nil
		for _, name := range names {
			part.Names = append(part.Names, Redact(name, secrets))
		}
	}
	return &r
}

// ValidDigest reports whether a text can be the Digest of an outcome: the hex of a SHA-256.
func ValidDigest(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}
