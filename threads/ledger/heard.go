package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	// maxHeard bounds the remembered commands; the newest stay. When the memory is full, a command older than all of it
	// counts as heard: the forge numbers comments in order.
	maxHeard = 1000
	// heardFor is how long a command is remembered: longer than a scan shows it, even if the two clocks differ.
	heardFor = 72 * time.Hour
	// CommandsPerMinute bounds the commands of one person that are carried out in a minute. The others wait.
	CommandsPerMinute = 10
)

// Listen records when the comments in a repository may be commands: from the second in which we first read it, by the
// forge's clock.
type Listen struct {
	Ref   Ref       `json:"ref"` // of the repository
	Since time.Time `json:"since"`
}

func (r *Listen) valid() bool { return r.Ref.Repo != "" && !r.Since.IsZero() }

func (r *Listen) apply(s *State, _ time.Time) {
	if _, known := s.Listens[r.Ref.Repo]; !known {
		s.Listens[r.Ref.Repo] = r.Since
	}
}

// Heard records the progress of a comment's command. It is journalled before the command is carried out, so that no
// crash repeats the command; again with the answer; and once more when the answer is on the forge. Before all that, it
// may be journalled as asked.
type Heard struct {
	Ref     Ref    `json:"ref"`
	Comment int64  `json:"comment"`
	By      string `json:"by,omitempty"` // the login of the person
	Verb    string `json:"verb,omitempty"`
	Asked   bool   `json:"asked,omitempty"` // it waits until its author confirms it
	Answer  string `json:"answer,omitempty"`
	Done    bool   `json:"done,omitempty"`
}

func (r *Heard) valid() bool { return r.Ref.Repo != "" && r.Ref.Number > 0 && r.Comment > 0 }

func (r *Heard) apply(s *State, at time.Time) {
	was, known := s.Heard[r.Comment]
	now := Taken{Heard: *r, At: at}
	if known {
		now.At, now.By, now.Verb = was.At, cmp.Or(r.By, was.By), cmp.Or(r.Verb, was.Verb)
	}
	if now.Done {
		now.Answer = ""
	}
	s.Heard[r.Comment] = now
	if len(s.Heard) > maxHeard {
		delete(s.Heard, slices.Min(slices.Collect(maps.Keys(s.Heard))))
	}
}

// Taken is a command that this supervisor, or one before it, has taken.
type Taken struct {
	Heard
	At time.Time // when it was taken
}

// knowsCommand reports whether a command was taken, or is too old to know.
func (s *State) knowsCommand(id int64) bool {
	if _, known := s.Heard[id]; known {
		return true
	}
	return len(s.Heard) >= maxHeard && id < slices.Min(slices.Collect(maps.Keys(s.Heard)))
}

// Commands returns the commands that are due now, in the order in which they were written. These came after we first
// read the repository, were not heard before, and are for this supervisor.
func (s *State) Commands(c *threads.Config, f *forge.Facts, now time.Time) (due []forge.CommandComment) {
	said := make(map[string]int)
	for _, h := range s.Heard {
		if now.Sub(h.At) < time.Minute {
			said[h.By]++
		}
	}
	for i := range f.Commands {
		one := &f.Commands[i]
		since, listens := s.Listens[one.Repo]
		if !listens || one.At.Before(since.Truncate(time.Second)) || s.knowsCommand(one.ID) || elsewhere(c, f, one) {
			continue
		}
		if said[one.Author]++; said[one.Author] <= CommandsPerMinute {
			due = append(due, *one)
		}
	}
	return due
}

// Unconfirmed returns the commands that wait for their author's confirmation, in the order in which they were written.
func (s *State) Unconfirmed(f *forge.Facts) (list []forge.CommandComment) {
	for _, one := range f.Commands {
		if s.Heard[one.ID].Asked {
			list = append(list, one)
		}
	}
	return list
}

// elsewhere reports whether a command is for another supervisor, which holds the item or has the agent.
func elsewhere(c *threads.Config, f *forge.Facts, s *forge.CommandComment) bool {
	foreign := func(login string) bool {
		same := func(bot string) bool { return strings.EqualFold(bot, login) }
		return slices.ContainsFunc(c.Forge.Bots, same) && c.AgentByLogin(login) == nil
	}
	if (s.Command.Verb == "assign" || s.Command.Verb == "pause") && len(s.Command.Args) == 1 &&
		foreign(s.Command.Args[0]) {
		return true
	}
	if is := f.Issue(s.Ref); is != nil {
		return is.HeldBy != "" || slices.ContainsFunc(is.Assignees, foreign)
	}
	p := f.Pull(s.Ref)
	return p != nil && (p.HeldBy != "" || slices.ContainsFunc(p.Assignees, foreign))
}

// Unanswered returns the commands that were carried out and whose answers are not on the forge, oldest first.
func (s *State) Unanswered() (list []Taken) {
	for _, id := range slices.Sorted(maps.Keys(s.Heard)) {
		if h := s.Heard[id]; !h.Done && !h.Asked {
			list = append(list, h)
		}
	}
	return list
}

// compactHeard is Compact for commands in comments.
func (s *State) compactHeard(now time.Time) (list []Record) {
	for _, repo := range slices.Sorted(maps.Keys(s.Listens)) {
		list = append(list, Record{At: now, Listen: &Listen{Ref: Ref{Repo: repo}, Since: s.Listens[repo]}})
	}
	for _, id := range slices.Sorted(maps.Keys(s.Heard)) {
		if h := s.Heard[id]; now.Sub(h.At) < heardFor {
			list = append(list, Record{At: h.At, Heard: &h.Heard})
		}
	}
	return list
}
