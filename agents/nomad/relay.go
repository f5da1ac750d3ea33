package nomad

import (
	"io"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

const (
	relayTick = 100 * time.Millisecond
	// relayEnd is the time limit for printing the end of a log after the session: Nomad may have stopped reading.
	relayEnd = 5 * time.Second
	// noteTick is the interval at which the document records the time of the last output.
	noteTick = 5 * time.Second
)

// relayLog prints the log of a job while it grows, without the session's secrets. The returned function waits until
// everything has been printed. It also deletes the order whenever Nomad writes it again, as its client does when it
// starts while the session runs.
func (p *SessionRun) relayLog(job agents.Job, secrets []string, book *documentWriter) (end func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r := &relay{path: job.LogPath, out: p.Out, hide: agents.NewRedactor(agents.HiddenValues(secrets)), book: book}
		for last := false; ; {
			r.copy()
			_ = os.Remove(p.orderPath())
			if last {
				r.print(r.hide.End())
				return
			}
			select {
			case <-over:
				last = true
			case <-time.After(relayTick):
			}
		}
	}()
	return func() {
		close(over)
		select {
		case <-ended:
		case <-time.After(relayEnd):
		}
	}
}

// relay copies a log from its file to Nomad.
type relay struct {
	path       string
	at         int64
	out        io.Writer
	hide       *agents.Redactor
	book       *documentWriter
	recordedAt time.Time
}

// copy prints what was added to the file since the last call.
func (r *relay) copy() {
	f, err := plainfile.Open(r.path, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	piece := make([]byte, 32<<10)
	for {
		n, _ := f.ReadAt(piece, r.at)
		if n == 0 {
			return
		}
		r.at += int64(n)
		r.print(r.hide.Next(string(piece[:n])))
		if now := time.Now(); now.Sub(r.recordedAt) >= noteTick {
			r.recordedAt = now
			r.book.write(func(d *document) { d.LastOutput = now.UTC() })
		}
	}
}

// print writes to Nomad. While Nomad's agent restarts, nothing reads, so print retries for 5 s.
func (r *relay) print(text string) {
	for try := 0; text != "" && try < 50; try++ {
		n, err := io.WriteString(r.out, text)
		if err == nil {
			return
		}
		text = text[n:]
		time.Sleep(relayTick)
	}
}
