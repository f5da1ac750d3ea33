package agents

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Seen tells what an executor saw of a session's processes, for the receipt.
type Seen struct {
	// Programs counts the processes that ran at one of the looks at least, and names their programs, without arguments,
	// which may be secrets.
	Programs Sighting `json:"programs"`
	// Hosts names the addresses that a process was connected to at a look, as 192.0.2.1:443.
	Hosts Sighting `json:"hosts"`
	// Files counts the files outside of the workspace that changed while the session ran, where its sandbox let it write.
	Files Sighting `json:"files"`
}

// Sighting is a number of things that were seen, with some of their names.
type Sighting struct {
	Count   *int64 `json:"count"`              // nil where nothing can be told, which is not 0
	Unknown string `json:"unknown,omitempty"`  // why nothing can be told
	AtLeast bool   `json:"at_least,omitempty"` // there may have been more
	// Names are different, and sorted. Cut says that some are left out.
	Names []string `json:"names,omitempty"`
	Cut   bool     `json:"cut,omitempty"`
}

// Bounds of the names in a Sighting. With all of them in a document of a session it still is a tenth of its bound.
const (
	MaxNames = 64
	maxName  = 160 // bytes
)

// NotSeen is the sighting of what cannot be told.
func NotSeen(why string) Sighting { return Sighting{Unknown: oneLine(why)} }

// Sight is the sighting of so many things, of which some have these names.
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

// nameOf makes a name that an agent chose printable and short. Its end says more than its beginning.
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

// Bounded returns the words of another machine with numbers and names that can be. It is nil for nil.
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

// Redact returns what was seen without secrets in the names. It is nil for nil.
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
