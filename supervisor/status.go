package supervisor

import (
	"fmt"
	"path/filepath"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// statusRest is the shortest time between two versions of status.json.
const statusRest = time.Second

// Document returns the present status.
func (s *Supervisor) Document() *control.Document {
	s.init()
	d := s.state.document(time.Now(), s.room())
	d.Version, d.PID, d.Config.Path = s.Version, s.PID, s.ConfigPath
	d.Problems, d.Upkeep = append(s.problems.lines(), s.cleaner.clearing.lines()...), s.problems.upkeep()
	d.Problems = append(append(d.Problems, s.state.off()...), append(s.inference.saves.lines(), s.state.forgotten()...)...)
	d.Problems = append(append(d.Problems, s.state.failing()...), s.state.nomadDown()...)
	d.Problems = append(d.Problems, s.state.brokenRepos()...)
	d.Alarms = s.alarms(time.Now())
	s.services.addServices(d)
	if s.Notify != nil {
		d.Problems = append(d.Problems, s.Notify.Problems()...)
	}
	if config := s.state.config(); config != nil && s.Sandbox != nil {
		d.Sandbox = s.Sandbox(config)
	}
	s.inference.addServers(d)
	d.Forecast = s.history.outlook.Load()
	d.Disk = s.cleaner.clearing.document()
	d.Forge.Requests = s.forge.requests()
	for i := range d.Recent {
		if r := &d.Recent[i]; r.Log != "" {
			r.Log = filepath.Join(s.StateDir, r.Log)
		}
	}
	s.sessions.addActivity(d.Sessions)
	s.addLastLines(d.Sessions)
	return d
}

// addLastLines adds the last line that each session printed. Without a valid configuration the secrets to hide in it
// are unknown.
func (s *Supervisor) addLastLines(list []control.SessionDocument) {
	config := s.state.config()
	if config == nil || len(list) == 0 {
		return
	}
	secrets := s.state.secretsOf(config)
	for i := range list {
		own := append(secrets[:len(secrets):len(secrets)], s.state.proxyPasswordOf(list[i].RunID, config))
		list[i].LastLine = control.LastLine(logPath(s.StateDir, list[i].Agent, list[i].RunID), own)
	}
}

// keepStatusFile writes status.json whenever the status has changed, so that `disinto status` has something to show
// without a supervisor. last writes it for the last time.
func (s *Supervisor) keepStatusFile() (last func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	file, logged := control.NewStatusFile(s.StateDir), &alarmLog{}
	go s.safely("the status file", func() {
		defer close(done)
		for {
			s.safely("writing the status", func() { s.writeStatus(file, logged) })
			select {
			case <-stop:
				return
			case <-time.After(statusRest):
			}
			select {
			case <-stop:
				return
			case <-s.changed:
			}
		}
	})
	return func() {
		close(stop)
		<-done
		s.safely("writing the status", func() { s.writeStatus(file, logged) })
	}
}

// writeStatus writes the status file, logs alarms, and passes the status to the notifier. If the status cannot be
// encoded, it writes only the problems, which include that failure.
func (s *Supervisor) writeStatus(file *control.StatusFile, logged *alarmLog) {
	d := s.Document()
	s.logNotices(logged.news(d)...)
	if s.Notify != nil {
		s.safely("telling people", func() { s.Notify.RecordStatus(d) })
	}
	if err := file.Write(d); err != nil {
		s.unencodable("status.json", err)
		_ = file.Write(&control.Document{
			Version: d.Version, PID: d.PID, StartedAt: d.StartedAt, Config: d.Config, Problems: s.problems.lines(),
		})
	}
}

// unencodable reports a document that cannot be encoded, once for each document.
func (s *Supervisor) unencodable(name string, err error) {
	words := fmt.Sprintf("internal error: cannot write %s: %s", name, text(err))
	if s.problems.unencodable(name, words) {
		s.log.Error(words)
		s.touchStatus()
	}
}

// Events returns the events from now on to a reader in this process, until leave is called. It may be called before
// Run, so that a reader misses no event. The channel is closed when the reader falls behind, and when Run ends.
func (s *Supervisor) Events() (events <-chan control.Event, leave func()) { return s.events.Read() }
