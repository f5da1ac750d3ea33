package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Inference asks inference servers of the operator's.
type Inference interface {
	// Look returns what the server at a thread's base_url says of itself and, with work, of its slots and counters: a
	// server may take that for a request, after which it keeps its model loaded. An error means that it does not answer,
	// or does not say. It may be called from several goroutines at a time.
	Look(ctx context.Context, baseURL string, work bool) (agents.Server, error)
}

const (
	serverRest = time.Minute      // from one look at a server to the next
	serverTime = 10 * time.Second // that it may take to answer
)

// servers are the operator's inference servers as they were when they were looked at last.
type servers struct {
	mu sync.Mutex               // guards of
	of map[string]*serverRecord // by base_url; those that have answered
}

// serverRecord is one server.
type serverRecord struct {
	at     time.Time // of the last look that it answered
	said   agents.Server
	past   threads.ServerPast
	work   time.Time // of the last look at its work
	worked bool      // sessions ran at the last look
	slept  time.Time // when it was found with its model unloaded
	bad    []string  // that were logged, as long as they hold
}

// keepServers looks at the servers of all local threads until ctx is done.
func (s *Supervisor) keepServers(ctx context.Context) {
	if s.Inference == nil {
		return
	}
	for rest := time.NewTicker(serverRest); ; {
		if config := s.books.config(); config != nil {
			s.lookAtServers(ctx, config)
		}
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// lookAtServers looks at each server once, at all of them at the same time.
func (s *Supervisor) lookAtServers(ctx context.Context, config *threads.Config) {
	var all sync.WaitGroup
	urls, works := make(map[string]bool), s.books.serving(config)
	for i := range config.Threads {
		t := &config.Threads[i]
		if t.Backend != threads.Local || t.BaseURL == "" || urls[t.BaseURL] {
			continue
		}
		urls[t.BaseURL] = true
		s.background(&all, "the look at the server of "+t.Name, func() {
			ctx, cancel := context.WithTimeout(ctx, serverTime)
			defer cancel()
			work := s.servers.works(t.BaseURL, works[t.BaseURL])
			if said, err := s.Inference.Look(ctx, t.BaseURL, work); err == nil {
				s.sawServer(config, t, &said, work)
			}
		})
	}
	all.Wait()
	s.servers.only(urls)
}

// serving has the servers for which a session runs.
func (b *books) serving(config *threads.Config) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	urls := make(map[string]bool)
	for _, x := range b.sessions {
		if t := config.Thread(x.Thread); t != nil {
			urls[t.BaseURL] = true
		}
	}
	return urls
}

// works reports whether a server is to be asked for its work: while sessions run, and once more after the last of them.
func (v *servers) works(url string, now bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.of[url]
	if r == nil {
		return now
	}
	was := r.worked
	r.worked = now
	return now || was
}

// sawServer takes in what a server says, and logs what is wrong with it once.
func (s *Supervisor) sawServer(config *threads.Config, t *threads.Thread, said *agents.Server, work bool) {
	bounded := said.Bounded()
	problems := func(r *serverRecord) []string { return r.problems(config, t) }
	fresh := s.servers.saw(t.BaseURL, &bounded, work, time.Now(), problems)
	s.books.sawCache(t.BaseURL, &bounded, s.servers.restarted(t.BaseURL))
	for _, line := range fresh {
		s.log.Warn(fmt.Sprintf("%s: %s", t.Name, line))
	}
	s.touchStatus()
}

// restarted is when a server was found to begin anew.
func (v *servers) restarted(url string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.of[url]; r != nil {
		return r.past.Restarted
	}
	return time.Time{}
}

// problems are those of a server for a thread.
func (r *serverRecord) problems(config *threads.Config, t *threads.Thread) []string {
	lines := config.ServerProblems(t, &r.said)
	if slow := r.past.Slowed(); slow != "" && r.at.Sub(r.work) <= staleServer {
		lines = append(lines, "the server has become slow: "+slow)
	}
	return lines
}

// saw takes in a look, and returns the problems that are new.
func (v *servers) saw(
	url string, said *agents.Server, work bool, at time.Time, problems func(*serverRecord) []string,
) (fresh []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.of[url]
	if r == nil {
		r = new(serverRecord)
		if v.of == nil {
			v.of = make(map[string]*serverRecord)
		}
		v.of[url] = r
	}
	r.at, r.said = at, *said
	switch {
	case said.Asleep:
		r.slept = at
	case work:
		r.past.Add(at, said)
		r.work = at
	}
	lines := problems(r)
	for _, line := range lines {
		if !slices.ContainsFunc(r.bad, func(was string) bool { return sameFault(was, line) }) {
			fresh = append(fresh, line)
		}
	}
	r.bad = lines
	return fresh
}

// sameFault reports whether two lines differ in their numbers only.
func sameFault(a, b string) bool {
	return dropDigits(a) == dropDigits(b)
}

func dropDigits(text string) string {
	return string(slices.DeleteFunc([]rune(text), func(r rune) bool { return r >= '0' && r <= '9' || r == '.' }))
}

// only forgets the servers that no thread uses any more.
func (v *servers) only(urls map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.of, func(url string, _ *serverRecord) bool { return !urls[url] })
}

// staleServer is how old a look may be that the status shows as the present.
const staleServer = 3 * serverRest

// document is a thread's server for the status; nil where it has not answered for some minutes.
func (v *servers) document(config *threads.Config, t *threads.Thread, now time.Time) *control.ServerDocument {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.of[t.BaseURL]
	if r == nil || t.Backend != threads.Local || now.Sub(r.at) > staleServer {
		return nil
	}
	d := &control.ServerDocument{
		Model: r.said.Model, Context: r.said.Context, Slots: r.said.Slots, SeenAt: r.at, Asleep: r.said.Asleep,
		Problems: r.problems(config, t),
	}
	if now.Sub(r.work) < time.Hour {
		d.Hour = speedOf(r.past.Hour())
	}
	if now.Sub(r.work) > staleServer {
		return d
	}
	d.Now = speedOf(r.past.Now())
	if w := r.said.Work; w != nil {
		d.Deferred = new(w.Deferred)
	}
	for _, slot := range r.said.At {
		d.At = append(d.At, control.ServerSlotDocument{
			Index: slot.ID, Busy: slot.Busy, Held: slot.Held, SpeedDocument: speedOf(r.past.Slot(slot.ID)),
		})
	}
	return d
}

func speedOf(s threads.Speed) control.SpeedDocument {
	return control.SpeedDocument{Read: rounded(s.Read), Written: rounded(s.Written)}
}

// rounded is a speed in tenths; nil where it is unknown.
func rounded(perSecond float64) *float64 {
	if perSecond <= 0 {
		return nil
	}
	return new(float64(int64(perSecond*10+0.5)) / 10)
}

// model is the name that the server of a thread has for its model; empty where it does not say.
func (v *servers) model(t *threads.Thread) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.of[t.BaseURL]; r != nil && t.Backend == threads.Local {
		return r.said.Model
	}
	return ""
}

// addServers adds to a status what the servers of its threads say, and the models that the configuration does not name.
func (s *Supervisor) addServers(d *control.Document) {
	config := s.books.config()
	if config == nil {
		return
	}
	now := time.Now()
	for i := range d.Threads {
		if t := config.Thread(d.Threads[i].Name); t != nil {
			d.Threads[i].Server = s.servers.document(config, t, now)
		}
	}
	for i := range d.Agents {
		a := &d.Agents[i]
		if t := config.Thread(a.Thread); t != nil && a.Model == "" {
			a.Model = s.servers.model(t)
		}
	}
}
