package simtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// machine runs services; the test decides how each run goes.
type machine struct {
	w *World

	mu     sync.Mutex
	did    []string // "NAME starts" and "NAME ends", with the arguments of its command
	ends   map[string]chan agents.Outcome
	silent map[string]string // why a service is not usable, by its address
	deaf   map[string]bool   // services that ignore TERM
}

func newMachine(w *World) *machine {
	return &machine{w: w, ends: make(map[string]chan agents.Outcome), silent: make(map[string]string)}
}

// Run runs a command until a test or the supervisor ends it.
func (m *machine) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if job.Command[0] == "prepare" {
		m.note(job, "prepares")
		started(agents.Started{PID: 40, At: time.Now()})
		select {
		case <-time.After(20 * time.Second):
			return agents.Outcome{Result: agents.Done}
		case <-ctx.Done():
			return agents.Outcome{Result: agents.Cancelled, Reason: "ended"}
		}
	}
	end := make(chan agents.Outcome, 1)
	m.mu.Lock()
	m.ends[job.Service] = end
	m.mu.Unlock()
	m.note(job, "starts")
	started(agents.Started{PID: 50, At: time.Now()})
	defer m.note(job, "ends")
	select {
	case out := <-end:
		return out
	case <-ctx.Done():
		if m.deaf[job.Service] {
			m.note(job, "is asked to end")
			select {
			case <-job.Hurry:
			case <-time.After(job.Grace):
			}
		} else {
			time.Sleep(time.Second)
		}
		return agents.Outcome{Result: agents.Cancelled, Reason: "ended"}
	}
}

// Unreported returns none.
func (m *machine) Unreported(context.Context, string) ([]string, error) { return nil, nil }

func (m *machine) note(job agents.Job, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.did = append(m.did, strings.Join(job.Command, " ")+" "+what)
}

func (m *machine) probe(_ context.Context, url string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why := m.silent[url]; why != "" {
		return errors.New(why)
	}
	return nil
}

// say sets why a service is not usable; "" means that it is.
func (m *machine) say(url, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent[url] = why
}

// fail ends a service.
func (m *machine) fail(service string) {
	m.end(service, agents.Outcome{Result: agents.Failed, Reason: service + ": exit status 1"})
}

func (m *machine) end(service string, out agents.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends[service] <- out
}

func (m *machine) log() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.did)
}

func (m *machine) in(l *Life) { l.Runner, l.Probe = m, m.probe }

const health = "http://127.0.0.1:8080/health"

// served returns a world whose local thread has a service as its server, which needs another service.
func served(t *testing.T) (*World, *machine) {
	w := New(t)
	w.Config.Threads[1].BaseURL = "http://localhost:8080/v1"
	w.Config.Services = []threads.Service{
		{Name: "gpu", Command: []string{"gpu"}},
		{
			Name: "llama", Command: []string{"llama"}, Before: [][]string{{"prepare"}}, Needs: []string{"gpu"},
			ReadyURL: health,
		},
	}
	return w, newMachine(w)
}

func state(l *Life, service string) control.ServiceDocument {
	list := l.Document().Services
	return list[slices.IndexFunc(list, func(d control.ServiceDocument) bool { return d.Name == service })]
}

// Nothing starts on a thread before its service is usable, and then at once. Work on other threads continues. At a
// stop, services end after the sessions, in the reverse order of their dependencies.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := served(t)
		w.Minutely()
		m.say(health, "503 Service Unavailable")
		w.Forge.Issue("one")
		l := w.Start(m.in)
		time.Sleep(30 * time.Second)
		if d := state(l, "llama"); d.State != "starting" || d.PID != 50 || d.Why != "not ready yet: 503 Service Unavailable" {
			t.Errorf("after its preparation: got %+v, want starting with process 50", d)
		}
		if q := l.Document().Queue; len(q) != 1 || q[0].Why != "llama waits for service llama, which is starting" {
			t.Errorf("got queue %+v, want one issue that waits for the service", q)
		}
		m.say(health, "")
		w.Until(2*time.Second, "the session starts", func() bool { return len(w.Exec.Runs()) == 1 })

		m.fail("llama")
		w.Forge.Issue("two")
		synctest.Wait()
		if d := state(l, "llama"); d.State != "resting" || d.Fails != 1 || d.Why != "llama: exit status 1" || d.PID != 0 {
			t.Errorf("after its end: got %+v, want resting after 1 failure", d)
		}
		w.Until(25*time.Second, "it is ready again", func() bool { return state(l, "llama").State == "ready" })
		w.Until(time.Minute, "the second session starts", func() bool { return len(w.Exec.Runs()) == 2 })
		l.Stop()
		want := []string{
			"gpu starts", "prepare prepares", "llama starts", "llama ends", "prepare prepares", "llama starts",
			"llama ends", "gpu ends",
		}
		if got := m.log(); !slices.Equal(got, want) {
			t.Errorf("got services %q, want %q", got, want)
		}
		for _, r := range w.Exec.Runs() {
			if r.End.IsZero() {
				t.Error("a session outlives the services")
			}
		}
		w.Check()
	})
}

// A service that fails repeatedly needs a person, and rests longer each time. A service that stops answering is ended
// after two minutes. A restart by a person skips the rest.
func TestServiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := served(t)
		l := w.Start(m.in)
		for range 3 {
			w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
			m.fail("llama")
			synctest.Wait()
		}
		const alarm = "service llama failed 3 times in a row, last: llama: exit status 1; see disinto logs llama"
		if d := l.Document(); !slices.Contains(d.Problems, alarm) || !state(l, "llama").NeedsPerson {
			t.Errorf("got problems %q, want the alarm", d.Problems)
		}
		if left := time.Until(state(l, "llama").Until); left != 4*time.Second {
			t.Errorf("got a rest of %s after its third failure, want 4s", left)
		}
		answer := order(l, "restart", "llama")
		if !strings.Contains(answer, `"did":["restarted"]`) || strings.Contains(answer, "ended first") {
			t.Errorf("got answer %s, want restarted, and nothing ended", answer)
		}
		synctest.Wait()
		if d := state(l, "llama"); d.State != "preparing" || d.Fails != 0 || slices.Contains(l.Document().Problems, alarm) {
			t.Errorf("after the restart: got %+v, want preparing without failures", d)
		}
		w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
		m.say(health, "no answer within 5s")
		w.Until(11*time.Second, "it is silent", func() bool { return state(l, "llama").State == "silent" })
		w.Until(123*time.Second, "it is ended", func() bool {
			return strings.Contains(w.Log.String(),
				"service llama failed: it has not answered for 2m: no answer within 5s; next try")
		})
		answer = order(l, "restart", "lama")
		if !strings.Contains(answer, "no service has that name, did you mean llama?") {
			t.Errorf("restart of an unknown service: got answer %s, want the suggestion llama", answer)
		}
		l.Stop()
		w.Check()
	})
}

// order requests restart, start or stop of a service, and returns the answer.
func order(l *Life, verb, service string) string {
	return ask(l, "/v1/"+verb, `{"service":"`+service+`"}`)
}

// ask posts a request, and returns the answer.
func ask(l *Life, path, body string) string {
	answer := httptest.NewRecorder()
	l.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return answer.Body.String()
}

// A reload starts new services and ends removed ones. A service with a changed definition continues, shown as
// changed, until its next start.
func TestServiceReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := served(t)
		l := w.Start(m.in)
		w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
		changed := *w.Config
		changed.Services = []threads.Service{
			{Name: "llama", Command: []string{"llama", "-np", "4"}, ReadyURL: health}, {Name: "new", Command: []string{"new"}},
		}
		l.Reload(&changed, nil)
		time.Sleep(2 * time.Second)
		if d := state(l, "llama"); d.State != "ready" || !d.Changed {
			t.Errorf("changed service: got %+v, want ready and changed", d)
		}
		if d := state(l, "new"); d.State != "ready" || d.Changed || len(l.Document().Services) != 2 {
			t.Errorf("new service: got %+v of %+v, want ready and unchanged, and 2 services", d, l.Document().Services)
		}
		order(l, "restart", "llama")
		time.Sleep(3 * time.Second)
		if d := state(l, "llama"); d.State != "ready" || d.Changed || d.Restarts != 1 {
			t.Errorf("changed service after its restart: got %+v, want ready, unchanged, and 1 restart", d)
		}
		l.Stop()
		want := []string{
			"gpu starts", "prepare prepares", "llama starts", "new starts", "gpu ends", "llama ends", "llama -np 4 starts",
		}
		if got := m.log(); len(got) != 9 || !slices.Equal(got[:7], want) {
			t.Errorf("got services %q, want %q and two ends", got, want)
		}
	})
}

// The status has the path of a service's log.
func TestServiceLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := served(t)
		l := w.Start(m.in)
		if got, want := state(l, "llama").Log, filepath.Join(w.Dir, "services", "llama", "log", "output.log"); got != want {
			t.Errorf("got log %s, want %s", got, want)
		}
		l.Stop()
	})
}
