package worlds

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// serve gives some threads an inference server that is one of the factory's services.
func (w *world) serve(cfg *threads.Config) {
	for i := range cfg.Threads {
		t := &cfg.Threads[i]
		if !w.chance(0.4) {
			continue
		}
		port := 8080 + i
		t.BaseURL = fmt.Sprintf("http://localhost:%d/v1", port)
		s := threads.Service{Name: "model-" + t.Name, ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/health", port)}
		if w.chance(0.3) {
			s.ReadyURL, s.Command = "", []string{"serve", "--port", fmt.Sprint(port)}
		}
		cfg.Services = append(cfg.Services, s)
		w.serves[t.Name] = s.Name
	}
}

// connect gives some new agents an address of their own, which overrides their thread's.
func (w *world) connect(cfg *threads.Config, a *agents.Agent) {
	switch {
	case w.chance(0.1):
		a.BaseURL = "http://elsewhere:8080/v1"
	case w.chance(0.2):
		a.BaseURL = oneOf(w, cfg.Threads...).BaseURL
	}
}

// fell makes a service fail for up to half an hour.
func (w *world) fell(*repo) {
	if len(w.cfg.Services) == 0 {
		return
	}
	name := oneOf(w, w.cfg.Services...).Name
	if w.down[name] {
		return
	}
	w.log("service %s fails", name)
	w.down[name] = true
	w.After(w.between(time.Minute, 30*time.Minute), func() {
		w.log("service %s can be used again", name)
		delete(w.down, name)
	})
}

// outages returns what the supervisor reports about its services.
func (w *world) outages() map[string]threads.Outage {
	if len(w.down) == 0 {
		return nil
	}
	out := make(map[string]threads.Outage)
	for name := range w.down {
		out[name] = threads.Outage{Why: "failed (exit status 1) and rests", Until: w.Now.Add(time.Minute)}
	}
	return out
}
