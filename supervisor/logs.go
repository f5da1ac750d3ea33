package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// logRest is how often a log that is followed is looked at.
const logRest = 200 * time.Millisecond

// Log is the output of one session.
type Log struct {
	RunID, Agent, Path string
}

// logged is a session that the journal names.
type logged struct {
	Log
	item forge.Ref
	at   time.Time
}

// FindLog finds the output of the newest session of an agent, or on an issue or pull request: 12, #12 or owner/name#12. It
// reads the state directory only, so it needs no supervisor. Sessions that never printed have none.
func FindLog(stateDir, of string) (Log, error) {
	list, err := loggedSessions(stateDir)
	if err != nil {
		return Log{}, err
	}
	const anywhere = "any/where"
	item, noRef := forge.ParseRef(of, anywhere)
	repos := make(map[string]bool)
	list = slices.DeleteFunc(list, func(l logged) bool {
		ours := l.Agent == of
		if noRef == nil {
			ours = l.item == item || item.Repo == anywhere && l.item.Number == item.Number
		}
		if _, err := os.Stat(l.Path); err != nil || !ours {
			return true
		}
		repos[l.item.Repo] = true
		return false
	})
	switch {
	case len(list) == 0:
		return Log{}, fmt.Errorf("cannot find a log of %s: no session of it is remembered; all logs are in %s", of, filepath.Join(stateDir, "logs"))
	case noRef == nil && len(repos) > 1:
		return Log{}, fmt.Errorf("cannot tell which repository %s is in: write owner/name#%d", of, item.Number)
	}
	return slices.MaxFunc(list, func(a, b logged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.RunID, b.RunID)) }).Log, nil
}

// loggedSessions are the sessions that the journal still knows: those since it was compacted, and the newest before.
func loggedSessions(stateDir string) ([]logged, error) {
	text, err := os.ReadFile(filepath.Join(stateDir, "journal.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	records, _ := parseJournal(text)
	var list []logged
	add := func(run, agent string, item forge.Ref, at time.Time) {
		list = append(list, logged{Log{run, agent, logPath(stateDir, agent, run)}, item, at})
	}
	for _, r := range records {
		switch {
		case r.Start != nil:
			add(r.Start.Run, r.Start.Agent, forge.Ref(r.Start.Item.Ref), r.At)
		case r.Open != nil:
			add(r.Open.Run, r.Open.Agent, forge.Ref(r.Open.Item.Ref), r.At)
		case r.Recent != nil:
			add(r.Recent.RunID, r.Recent.Agent, forge.Ref{Repo: r.Recent.Repo, Number: r.Recent.Number}, r.Recent.StartedAt)
		}
	}
	return list, nil
}

func logPath(stateDir, agent, run string) string {
	return filepath.Join(stateDir, "logs", agent, run+".log")
}

// Copy writes the log without the secrets in it. While live says so it goes on with what is added; nil copies what is
// there. It ends early, without an error, when ctx is done.
func (l *Log) Copy(ctx context.Context, w io.Writer, secrets []string, live func() bool) error {
	f, err := os.OpenFile(l.Path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	defer f.Close()
	redactor := agents.NewRedactor(secrets)
	buf := make([]byte, 32<<10)
	for {
		// Asked before reading: what was printed before the session ended is then in the file.
		more := live != nil && live()
		for {
			n, err := f.Read(buf)
			if _, err := io.WriteString(w, redactor.Next(string(buf[:n]))); err != nil {
				return err
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("cannot read the log: %w", err)
			}
			if n == 0 {
				break
			}
			if ctx.Err() != nil {
				return nil
			}
		}
		if !more {
			_, err := io.WriteString(w, redactor.End())
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logRest):
		}
	}
}

// sendLog answers GET /v1/log?of=AGENT|REF, with &follow=1 until the session ends.
func (s *Supervisor) sendLog(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	config := s.config
	s.mu.Unlock()
	if config == nil {
		refuse(w, http.StatusServiceUnavailable, errors.New("not now: without a valid configuration nobody knows which secrets to hide in a log"))
		return
	}
	of := r.URL.Query().Get("of")
	if item, err := s.item(of); err == nil {
		of = item.String()
	}
	log, err := FindLog(s.StateDir, of)
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	var live func() bool
	if r.URL.Query().Get("follow") != "" {
		live = func() bool { return s.runs(log.RunID) }
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	// Its head is on the way: an error now can only end the answer.
	_ = log.Copy(r.Context(), &flushing{w, http.NewResponseController(w)}, s.secretsOf(config), live)
}

// runs reports whether a session is not over.
func (s *Supervisor) runs(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[run] != nil
}

// secretsOf are the secrets of a configuration, and of those that sessions were started with: a reload may have changed
// a token that a session still prints.
func (s *Supervisor) secretsOf(config *threads.Config) []string {
	list := configSecrets(config)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		if x.config != config {
			list = append(list, x.secrets()...)
		}
	}
	return list
}

// flushing sends each piece on its way at once. A reader that takes nothing for so long is stuck.
type flushing struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

func (f *flushing) Write(p []byte) (int, error) {
	_ = f.out.SetWriteDeadline(time.Now().Add(2 * eventPulse))
	n, err := f.w.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
