package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// LogQuery selects logs.
type LogQuery struct {
	Of      string    // an agent or a reference, for its newest session
	Session string    // instead of the newest: the session whose id starts with this
	Since   time.Time // instead of the newest: all sessions reserved since then
	Lines   int       // the last lines of each; 0 is all
	Follow  bool      // follow the newest session; for an idle agent, wait for its next one
	Heads   bool      // name each session above its output, and list the others
	Times   bool      // begin each line with its time in UTC, see Clock
}

// Values returns the parameters of the request.
func (q *LogQuery) Values() url.Values {
	v := url.Values{"of": {q.Of}}
	set := func(key, value string, is bool) {
		if is {
			v.Set(key, value)
		}
	}
	set("session", q.Session, q.Session != "")
	set("since", q.Since.UTC().Format(time.RFC3339), !q.Since.IsZero())
	set("lines", strconv.Itoa(q.Lines), q.Lines > 0)
	set("follow", "1", q.Follow)
	set("heads", "1", q.Heads)
	set("times", "1", q.Times)
	return v
}

// readLogQuery reads the parameters of a request.
func readLogQuery(v url.Values) (q LogQuery, err error) {
	q = LogQuery{Of: v.Get("of"), Session: v.Get("session"), Follow: v.Get("follow") != "", Heads: v.Get("heads") != ""}
	q.Times = v.Get("times") != ""
	if said := v.Get("since"); said != "" {
		if q.Since, err = time.Parse(time.RFC3339, said); err != nil {
			return q, Invalid("cannot read %q as a time: write it as 2026-01-31T12:00:00Z", said)
		}
	}
	if said := v.Get("lines"); said != "" {
		if q.Lines, err = strconv.Atoi(said); err != nil || q.Lines < 0 {
			return q, Invalid("cannot read %q as a number of lines", said)
		}
	}
	return q, nil
}

// FoundLogs is the answer to a LogQuery.
type FoundLogs struct {
	Shown   []Log    // oldest first, at least one
	Others  []Log    // of the same agent or item, oldest first
	Waits   bool     // a newer session may follow, because the query names an agent
	Secrets []string // to hide
}

// Choose divides the logs of an agent or item, oldest first and at least one, into the query's and the others.
func (q *LogQuery) Choose(logs []Log) (found FoundLogs, err error) {
	newest := len(logs) - 1
	for i := range logs {
		l := logs[i]
		l.Lines = q.Lines
		shown := i == newest
		switch {
		case q.Session != "":
			shown = strings.HasPrefix(l.RunID, q.Session)
		case !q.Since.IsZero():
			shown = !l.Began.Before(q.Since)
		}
		if shown {
			found.Shown = append(found.Shown, l)
		} else {
			found.Others = append(found.Others, l)
		}
	}
	if len(found.Shown) > 0 {
		return found, nil
	}
	if q.Session != "" {
		return found, fmt.Errorf("cannot find session %s of %s: disinto logs %s lists its sessions",
			q.Session, q.Of, q.Of)
	}
	return found, fmt.Errorf("no session of %s has begun since %s", q.Of, q.Since.UTC().Format(time.RFC3339))
}

// Logs is the route of the logs; LogQuery documents its parameters. isRunning reports whether a session still runs.
func Logs(path string, find func(LogQuery) (FoundLogs, error), isRunning func(runID string) bool) Route {
	return Route{"GET " + path, func(w http.ResponseWriter, r *http.Request) {
		q, err := readLogQuery(r.URL.Query())
		var found FoundLogs
		if err == nil {
			found, err = find(q)
		}
		if err != nil {
			answer(w, nil, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusOK)
		out := &flushing{w, http.NewResponseController(w)}
		// The status is sent: an error now can only end the answer.
		if found.Copy(r.Context(), out, q, isRunning) == nil && q.Follow && found.Waits {
			_ = awaitNext(r.Context(), out, q, find, &found, isRunning)
		}
	}}
}

// Copy writes the query's logs. With a nil isRunning it follows none.
func (f *FoundLogs) Copy(ctx context.Context, w io.Writer, q LogQuery, isRunning func(string) bool) error {
	if q.Heads {
		for i := range f.Others {
			l := &f.Others[i]
			if _, err := fmt.Fprintf(w, "==> %s: disinto logs %s --session %s\n", l.head(), q.Of, l.RunID); err != nil {
				return err
			}
		}
	}
	for i := range f.Shown {
		l := &f.Shown[i]
		if q.Heads && len(f.Shown)+len(f.Others) > 1 {
			if _, err := fmt.Fprintf(w, "==> %s <==\n", l.head()); err != nil {
				return err
			}
		}
		l.Times = q.Times
		var live func() bool
		if q.Follow && isRunning != nil && i == len(f.Shown)-1 {
			live = func() bool { return isRunning(l.RunID) }
			f.Waits = f.Waits && !live()
		}
		if err := l.Copy(ctx, w, func() []string { return f.Secrets }, live); err != nil {
			return err
		}
	}
	return nil
}

// head returns the line that names a session, to print above its log.
func (l *Log) head() string {
	return fmt.Sprintf("%s, %s, %s", l.Agent, l.Work, l.Began.UTC().Format(time.RFC3339))
}

// nextRest is the time between two checks for an idle agent's next session.
const nextRest = time.Second

// awaitNext waits for an idle agent's next session, and follows it.
func awaitNext(
	ctx context.Context, w io.Writer, q LogQuery, find func(LogQuery) (FoundLogs, error), was *FoundLogs,
	isRunning func(string) bool,
) error {
	last := was.Shown[len(was.Shown)-1].RunID
	if _, err := fmt.Fprintf(w, "==> waits for the next session of %s\n", q.Of); err != nil {
		return err
	}
	q.Session, q.Since, q.Lines = "", time.Time{}, 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(nextRest):
		}
		next, err := find(q)
		if err != nil || next.Shown[0].RunID == last {
			continue
		}
		next.Others, next.Waits = nil, false
		return next.Copy(ctx, w, q, isRunning)
	}
}
