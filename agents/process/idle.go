package process

import (
	"context"
	"fmt"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// progressTime bounds the time in which a backend reports its progress. llama-server answers between two batches.
const progressTime = 10 * time.Second

// idle detects an inactive session: for at least a stall its log has not changed, and all its processes together have
// used less than 1 % of a core. One mark, moved at every activity, is enough for that.
type idle struct {
	ticks <-chan time.Time // nil for a job without a stall
	stall time.Duration
	root  int // the shim
	log   string

	mark
}

// mark is the time of the last activity, and the values seen then. The next supervisor continues from it.
type mark struct {
	Since   time.Time     `json:"since,omitzero"`
	CPU     time.Duration `json:"cpu,omitempty"`
	Size    int64         `json:"size,omitempty"`
	Written time.Time     `json:"written,omitzero"`
	Backend string        `json:"backend,omitempty"` // the backend's last answer
}

// begin starts the ticks, and takes the first mark.
func (i *idle) begin(job agents.Job, root int) {
	i.stall, i.root, i.log = job.Stall, root, job.LogPath
	if job.Stall > 0 {
		// Eight checks per stall find its end closely enough; each check walks over /proc.
		i.ticks = time.Tick(min(max(job.Stall/8, 10*time.Millisecond), time.Minute))
		i.check()
	}
}

// check reads the log and the processor time, and reports whether the session has been idle for the whole stall.
func (i *idle) check() bool {
	now, cpu := time.Now(), tree.CPU(i.root)
	var size int64
	var written time.Time
	if info, err := os.Lstat(i.log); err == nil {
		size, written = info.Size(), info.ModTime()
	}
	if i.Since.IsZero() || size != i.Size || !written.Equal(i.Written) || cpu-i.CPU >= i.stall/100 {
		i.Since, i.CPU, i.Size, i.Written = now, cpu, size, written
		return false
	}
	return now.Sub(i.Since) >= i.stall
}

// progressed reports whether the backend has advanced since its last answer. If so, it starts a new stall. It cannot
// tell which request the backend computes, so a silent session beside a busy one may run until its timeout. That is
// better than ending a session in the twentieth minute of reading its prompt.
func (i *idle) progressed(mark string) bool {
	if mark == "" || mark == i.Backend {
		return false
	}
	i.Backend, i.Since = mark, time.Now()
	return true
}

// verdict names the missing activity. asked is the backend that reported no progress, or empty if none was asked.
func (i *idle) verdict(asked string) verdict {
	words := "no output"
	if i.Size == 0 {
		words = "no output from its start on"
	}
	words = fmt.Sprintf("ended: %s and under 1 %% of a core for %s", words, i.stall)
	if asked != "" {
		words += ", nor any progress of " + asked
	}
	return verdict{agents.Stalled, words}
}

// fetchProgress requests the backend's progress in the background, because the session can be cancelled meanwhile. It
// sends "" if the backend does not report any.
func (r *run) fetchProgress(ctx context.Context) chan string {
	answer := make(chan string, 1)
	go func() {
		said := ""
		err := safely("a question to a backend", func() error {
			ctx, cancel := context.WithTimeout(ctx, progressTime)
			defer cancel()
			said = r.exec.Progress(ctx, r.job.BackendURL)
			return nil
		})
		if err != nil {
			r.log(err.Error())
		}
		answer <- said
	}()
	return answer
}
