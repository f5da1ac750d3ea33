package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/supervisor/shadow"
	"codeberg.org/johba/disinto/threads/wire"
)

const (
	// shadowTime bounds another build's decision.
	shadowTime = 5 * time.Second
	// longestAnswer bounds its answer in bytes: 10,000 waiting items take half of that.
	longestAnswer = 16 << 20
)

// newShadow returns the client of the build that [factory] decide names; nil without a runner.
func (s *Supervisor) newShadow() *shadow.Shadow {
	if s.Runner == nil {
		return nil
	}
	return &shadow.Shadow{Run: s.runShadow, Log: s.log, Changed: s.touchStatus}
}

// keepShadow stops or resumes the questions to the other build, while another image takes over.
func (s *Supervisor) keepShadow(still bool) {
	if s.books.shadow != nil {
		s.books.shadow.KeepStill(still)
	}
}

// runShadow runs a program that answers a question. The program runs like a session: below this process, at a lower
// priority, until no process of it is left. Its sandbox lets it read the question and opens no port.
func (s *Supervisor) runShadow(ctx context.Context, program string, question []byte) ([]byte, error) {
	folder := filepath.Join(s.StateDir, "shadow")
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		return nil, fmt.Errorf("cannot make its folder: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "question.json")
	if err := os.WriteFile(path, question, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the question: %w", err)
	}
	job := agents.Job{
		RunID: journal.NewRun(s.instance), Instance: s.instance, Command: []string{program, wire.Command, path},
		Dir: filepath.Join(folder, "work"), LogPath: filepath.Join(folder, "answer"), MaxLog: longestAnswer,
		Timeout: shadowTime, Limits: agents.Limits{Memory: 1 << 30, PIDs: 64},
		Sandbox: agents.Sandbox{
			Mode: agents.SandboxAuto, Read: []string{path}, Hide: append(slices.Clone(s.Hide), s.StateDir),
		},
	}
	job.Env = []string{"DISINTO_RUN_ID=" + job.RunID, "PATH=/usr/bin:/bin", "GOMAXPROCS=1"}
	out := s.Runner.Run(ctx, job, nil)
	if out.Result != agents.Done {
		return nil, errors.New(shadowFailure(program, &out))
	}
	answer, err := plainfile.Read(job.LogPath, longestAnswer)
	for err == nil && isRemark(answer) {
		_, answer, _ = bytes.Cut(answer, []byte("\n"))
	}
	return answer, err
}

// isRemark reports whether a text starts with a line of the executor. Such lines precede the program's in a log.
func isRemark(text []byte) bool {
	is := func(prefix string) bool { return bytes.HasPrefix(text, []byte("disinto: "+prefix)) }
	return slices.ContainsFunc([]string{"sandbox: ", "no sandbox: ", "the session's "}, is)
}

// shadowFailure returns why a program did not answer, with the last line of its output.
func shadowFailure(program string, out *agents.Outcome) string {
	why := strings.TrimPrefix(out.Reason, program+": ")
	lines := strings.Split(strings.TrimSpace(out.Tail), "\n")
	last := lines[len(lines)-1]
	if last == "" || isRemark([]byte(last)) {
		return why
	}
	return why + ": " + last
}

// addShadow adds the other build's differing decisions to a status. A build that does not answer is a problem for a
// person.
func (s *Supervisor) addShadow(d *control.Document) {
	if s.books.shadow == nil {
		return
	}
	c := s.books.config()
	if d.Shadow = s.books.shadow.Document(c); d.Shadow != nil && d.Shadow.Error != "" {
		d.Problems = append(d.Problems, fmt.Sprintf("%s:%d: factory.decide: %s: %s", filepath.Base(c.Name),
			c.Factory.ShadowLine, d.Shadow.Path, d.Shadow.Error))
	}
}

// shadowed returns the other build's differing decision about an item; empty if it does not differ.
func (s *Supervisor) shadowed(item forge.Ref) string {
	if s.books.shadow == nil {
		return ""
	}
	d := s.books.shadow.Document(s.books.config())
	if d == nil {
		return ""
	}
	about := func(x control.Differs) bool { return x.Repo == item.Repo && x.Number == item.Number }
	i := slices.IndexFunc(d.Differs, about)
	if i < 0 {
		return ""
	}
	x := &d.Differs[i]
	return fmt.Sprintf("%s (%s)", x.Words(d.Version), x.Last.Format(time.RFC3339))
}
