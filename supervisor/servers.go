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
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// Inference queries the operator's inference servers.
type Inference interface {
	// Fetch returns the description of the server at a thread's base_url and, with work, its slots and counters. A server
	// may count a query with work as a request, and then keeps its model loaded. An error means that the server does not
	// answer, or gives no description. Fetch may be called from several goroutines at a time.
	Fetch(ctx context.Context, baseURL string, work bool) (agents.Server, error)
}

const (
	serverRest = time.Minute      // between two looks at a server
	serverTime = 10 * time.Second // bounds a look
)

// servers has the last look at each of the operator's inference servers.
type servers struct {
	mu sync.Mutex               // guards of
	of map[string]*serverRecord // the servers that have answered, by base_url
}

// serverRecord is one server.
type serverRecord struct {
	at     time.Time // the last look that the server answered
	said   agents.Server
	past   threads.ServerPast
	work   time.Time // the last look at its work
	worked bool      // sessions ran at the last look
	slept  time.Time // the last look that found its model unloaded
	bad    []string  // logged problems that still hold
}

// inference looks after the operator's inference servers: their state, and the conversations saved on them.
type inference struct {
	*core
	servers servers
	saves   saves
	client  Inference                         // nil queries no server
	saver   func(baseURL string) saved.Server // nil saves no conversation
}

// keepServers looks at the servers of all local threads until ctx is done.
func (inf *inference) keepServers(ctx context.Context) {
	if inf.client == nil {
		return
	}
	for rest := time.NewTicker(serverRest); ; {
		if config := inf.state.config(); config != nil {
			inf.pollServers(ctx, config)
		}
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// pollServers looks at each server once, at all of them in parallel.
func (inf *inference) pollServers(ctx context.Context, config *threads.Config) {
	var all sync.WaitGroup
	urls, works := make(map[string]bool), inf.state.serving(config)
	for i := range config.Threads {
		t := &config.Threads[i]
		if !t.Backend.Server() || t.BaseURL == "" || urls[t.BaseURL] {
			continue
		}
		urls[t.BaseURL] = true
		inf.background(&all, "the look at the server of "+t.Name, func() {
			ctx, cancel := context.WithTimeout(ctx, serverTime)
			defer cancel()
			work := inf.servers.works(t.BaseURL, works[t.BaseURL])
			if said, err := inf.client.Fetch(ctx, t.BaseURL, work); err == nil {
				inf.recordServer(config, t, &said, work)
			}
		})
	}
	all.Wait()
	inf.servers.only(urls)
}

// serving returns the servers for which a session runs.
func (st *state) serving(config *threads.Config) map[string]bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	urls := make(map[string]bool)
	for _, x := range st.sessions {
		if t := config.Thread(x.Thread); t != nil {
			urls[t.BaseURL] = true
		}
	}
	return urls
}

// works reports whether a look must include the server's work: while sessions run, and once more after the last of
// them.
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

// recordServer stores a server's answer, and logs each new problem once.
func (inf *inference) recordServer(config *threads.Config, t *threads.Thread, said *agents.Server, work bool) {
	bounded := said.Bounded()
	problems := func(r *serverRecord) []string { return r.problems(config, t) }
	fresh := inf.servers.store(t.BaseURL, &bounded, work, time.Now(), problems)
	inf.state.recordCache(t.BaseURL, &bounded, inf.servers.restarted(t.BaseURL))
	for _, line := range fresh {
		inf.log.Warn(fmt.Sprintf("%s: %s", t.Name, line))
	}
	inf.touchStatus()
}

// restarted returns when a server was found restarted.
func (v *servers) restarted(url string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.of[url]; r != nil {
		return r.past.Restarted
	}
	return time.Time{}
}

// problems returns a server's problems for a thread.
func (r *serverRecord) problems(config *threads.Config, t *threads.Thread) []string {
	lines := config.ServerProblems(t, &r.said)
	if slow := r.past.Slowed(); slow != "" && r.at.Sub(r.work) <= staleServer {
		lines = append(lines, "the server has become slow: "+slow)
	}
	return lines
}

// store stores a look, and returns the problems that are new.
func (v *servers) store(
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

// only drops the servers that no thread uses any more.
func (v *servers) only(urls map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.of, func(url string, _ *serverRecord) bool { return !urls[url] })
}

// staleServer is the maximum age of a look that the status shows.
const staleServer = 3 * serverRest

// document returns a thread's server for the status; nil if it has not answered for some minutes.
func (v *servers) document(config *threads.Config, t *threads.Thread, now time.Time) *control.ServerDocument {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.of[t.BaseURL]
	if r == nil || !t.Backend.Server() || now.Sub(r.at) > staleServer {
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

// rounded returns a speed rounded to tenths; nil if it is unknown.
func rounded(perSecond float64) *float64 {
	if perSecond <= 0 {
		return nil
	}
	return new(float64(int64(perSecond*10+0.5)) / 10)
}

// model returns the model name that a thread's server reports; empty if it reports none.
func (v *servers) model(t *threads.Thread) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.of[t.BaseURL]; r != nil && t.Backend.Server() {
		return r.said.Model
	}
	return ""
}

// addServers adds the servers of a status's threads, and the models that the configuration does not name.
func (inf *inference) addServers(d *control.Document) {
	config := inf.state.config()
	if config == nil {
		return
	}
	now := time.Now()
	for i := range d.Threads {
		if t := config.Thread(d.Threads[i].Name); t != nil {
			d.Threads[i].Server = inf.servers.document(config, t, now)
		}
	}
	for i := range d.Agents {
		a := &d.Agents[i]
		if t := config.Thread(a.Thread); t != nil && a.Model == "" {
			a.Model = inf.servers.model(t)
		}
	}
}
