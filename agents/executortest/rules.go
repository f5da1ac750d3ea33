package executortest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// want compares an outcome's result, and checks that its reason contains a text.
func (b *bench) want(o agents.Outcome, result agents.Result, reason string) {
	b.Helper()
	if o.Result != result || !strings.Contains(o.Reason, reason) {
		b.Errorf("the outcome is %s (%s), want %s (%s)", o.Result, o.Reason, result, reason)
	}
	if o.Result != agents.Done && o.Reason == "" {
		b.Errorf("the outcome %s has no reason", o.Result)
	}
}

func exits(b *bench) {
	for _, tt := range []struct {
		script string
		result agents.Result
		reason string
		code   int
		signal string
	}{
		{"exit 0", agents.Done, "", 0, ""},
		{"exit 3", agents.Failed, "exit status 3", 3, ""},
		{"kill -9 $$", agents.Killed, "SIGKILL", -1, "SIGKILL"},
	} {
		o := b.run(b.job(tt.script))
		b.want(o, tt.result, tt.reason)
		if o.ExitCode != tt.code || o.Signal != tt.signal || o.Claimed {
			b.Errorf("%s: got %+v, want code %d, signal %q, not claimed", tt.script, o, tt.code, tt.signal)
		}
	}
}

func results(b *bench) {
	o := b.run(b.job(`cat >$DISINTO_RESULT <<'END'
{"outcome":"refused","reason":"it says nothing","session_id":"abc","usage":{"input_tokens":7,"cost_usd":0.5}}
END
exit 4`))
	b.want(o, agents.Refused, "it says nothing")
	if o.SessionID != "abc" || o.Usage.InputTokens != 7 || o.Usage.CostUSD != 0.5 || !o.Claimed || o.ExitCode != 4 {
		b.Errorf("%+v", o)
	}
	b.want(b.run(b.job(`echo '{"outcome":"splendid"' >$DISINTO_RESULT; exit 5`)), agents.Failed, "exit status 5; ")
}

func missing(b *bench) {
	job := b.job("")
	job.Command = []string{"/no/such/program"}
	began := false
	o := b.exec.Run(b.Context(), job, func(agents.Started) { began = true })
	b.want(o, agents.Failed, "/no/such/program")
	if began || o.ExitCode != 127 {
		b.Errorf("got started %v, %+v; want no start, exit code 127", began, o)
	}
}

func environment(b *bench) {
	job := b.job(`printf '%s %s' "$OPEN" "$HIDDEN" >$T/env`)
	job.Env = append(job.Env, `OPEN=a "b" ${c}`)
	job.Secrets = []string{"HIDDEN=x'y{{z}}"}
	b.want(b.run(job), agents.Done, "")
	if got := b.read("env"); got != `a "b" ${c} x'y{{z}}` {
		b.Errorf("the program got the variables %q", got)
	}
}

func activity(b *bench) {
	job := b.job(`echo word; while ! test -e $T/end; do sleep 0.05; done`)
	if _, ok := b.exec.Activity(job.RunID); ok {
		b.Error("the executor reports activity before the start")
	}
	began := time.Now()
	x, s := b.begin(job)
	if (s.PID == 0) == (s.Place == "") || s.At.Before(began.Add(-time.Minute)) || s.At.After(time.Now().Add(time.Minute)) {
		b.Errorf("the executor reported the start %+v, want either a pid or a place, and the time", s)
	}
	b.eventually("the executor reports the activity", func() bool {
		a, ok := b.exec.Activity(job.RunID)
		return ok && a.PID == s.PID && a.Place == s.Place && !a.LastOutput.IsZero()
	})
	b.touch("end")
	b.want(<-x.out, agents.Done, "")
	if _, ok := b.exec.Activity(job.RunID); ok {
		b.Error("the executor reports activity after the end")
	}
	if len(x.begun) > 0 {
		b.Error("the executor reported the start twice")
	}
}

func logs(b *bench) {
	b.exec = b.subject.New(b.T, "hunter2hunter2")
	job := b.job(`echo one; echo two >&2; echo the word is hunter2hunter2; exit 1`)
	o := b.run(job)
	if !strings.HasSuffix(o.Tail, "one\ntwo\nthe word is [secret]") { // a sandbox adds a line before
		b.Errorf("got the tail %q, want both streams without the secret", o.Tail)
	}
	if got := b.log(job); !strings.Contains(got, "one\ntwo\n") {
		b.Errorf("got the log %q, want both streams", got)
	}
}

func cancelled(b *bench) {
	job := b.job(`trap 'touch $T/heard; exit 0' TERM; touch $T/runs; while :; do sleep 0.05; done`)
	x, _ := b.begin(job)
	b.eventually("the program waits for TERM", func() bool { return b.exists("runs") })
	x.end(errors.New("a person said so"))
	b.want(<-x.out, agents.Cancelled, "a person said so")
	if !b.exists("heard") {
		b.Error("the program did not get TERM")
	}
}

func ignorer(b *bench) {
	job := b.job(`trap '' TERM; (trap '' TERM; exec setsid sh -c 'echo $$ >>$T/pids; while :; do sleep 0.05; done') &
		echo $$ >>$T/pids; while :; do sleep 0.05; done`)
	job.Grace = 300 * time.Millisecond
	x, _ := b.begin(job)
	b.eventually("both processes run", func() bool { return len(strings.Fields(b.read("pids"))) == 2 })
	x.end(errors.New("a person said so"))
	b.want(<-x.out, agents.Cancelled, "a person said so")
	b.wantEnded("pids")
}

func daemons(b *bench) {
	job := b.job(`setsid sh -c 'echo $$ >$T/pids; while :; do sleep 0.05; done' &
		while ! test -s $T/pids; do sleep 0.05; done`)
	b.want(b.run(job), agents.Done, "")
	b.wantEnded("pids")
}

func limits(b *bench) {
	job := b.job("while :; do echo x; sleep 0.05; done")
	job.Timeout = time.Second
	b.want(b.run(job), agents.TimedOut, "")
	job = b.job("sleep 1000")
	job.Stall = time.Second
	b.want(b.run(job), agents.Stalled, "")
}

func usage(b *bench) {
	job := b.job(`echo '{"usage":{"output_tokens":5}}' >$DISINTO_RESULT; while ! test -e $T/end; do sleep 0.05; done
		echo '{"outcome":"done","usage":{"output_tokens":9}}' >$DISINTO_RESULT`)
	var told atomic.Int64
	job.Spent = func(u agents.Usage) { told.Store(u.OutputTokens) }
	x, _ := b.begin(job)
	b.eventually("the executor reports the usage", func() bool { return told.Load() == 5 })
	b.touch("end")
	o := <-x.out
	b.want(o, agents.Done, "")
	if o.Usage.OutputTokens != 9 {
		b.Errorf("got the final usage %+v, want 9 output tokens", o.Usage)
	}
}

func once(b *bench) {
	job := b.job(`echo x >>$T/starts; while ! test -e $T/end; do sleep 0.05; done`)
	x, _ := b.begin(job)
	o := b.exec.Run(b.Context(), job, func(agents.Started) { b.Error("the run started a second time") })
	b.want(o, agents.Failed, job.RunID)
	b.touch("end")
	b.want(<-x.out, agents.Done, "")
	if got := b.read("starts"); got != "x" {
		b.Errorf("the program started %d times, want once", len(strings.Fields(got)))
	}
}

func early(b *bench) {
	for _, cause := range []error{errors.New("the issue is closed"), agents.ErrDetached} {
		ctx, cancel := context.WithCancelCause(b.Context())
		cancel(cause)
		o := b.exec.Run(ctx, b.job(`touch $T/ran`), func(agents.Started) { b.Error("the session started") })
		b.want(o, agents.Cancelled, cause.Error())
		if b.exists("ran") {
			b.Error("the program ran")
		}
	}
}

func unknown(b *bench) {
	o := b.exec.Run(b.Context(), agents.Job{RunID: b.job("").RunID}, func(agents.Started) { b.Error("it started") })
	b.want(o, agents.Lost, "")
	ctx, cancel := context.WithCancelCause(b.Context())
	cancel(errors.New("a person said so"))
	o = b.exec.Run(ctx, agents.Job{RunID: b.job("").RunID}, nil)
	if o.Result != agents.Lost && o.Result != agents.Cancelled {
		b.Errorf("%+v", o)
	}
}

func noneUnreported(b *bench) {
	if runs, err := b.exec.Unreported(b.Context(), b.job("").Instance); err != nil || len(runs) > 0 {
		b.Errorf("Unreported = %q, %v, want none", runs, err)
	}
}

// startDetached starts a job and detaches the supervisor from it.
func (b *bench) startDetached(job agents.Job) agents.Started {
	b.Helper()
	x, s := b.begin(job)
	x.end(agents.ErrDetached)
	b.want(<-x.out, agents.Lost, "")
	b.exec = b.subject.New(b.T)
	return s
}

// wantUnreported compares the sessions that the executor keeps for a job's instance.
func (b *bench) wantUnreported(job agents.Job, want ...string) {
	b.Helper()
	if runs, err := b.exec.Unreported(b.Context(), job.Instance); err != nil || !slices.Equal(runs, want) {
		b.Errorf("Unreported = %q, %v, want %q", runs, err, want)
	}
}

func unreported(b *bench) {
	job := b.job(`echo x >>$T/starts; while ! test -e $T/end; do sleep 0.05; done; exit 6`)
	s := b.startDetached(job)
	b.wantUnreported(job, job.RunID)
	b.wantUnreported(agents.Job{Instance: job.Instance + "x"})
	x := b.runInBackground(b.exec, agents.Job{RunID: job.RunID})
	b.eventually("the executor reports the activity", func() bool {
		a, ok := b.exec.Activity(job.RunID)
		return ok && a.Place == s.Place
	})
	b.touch("end")
	o := <-x.out
	b.want(o, agents.Failed, "exit status 6")
	if o.ExitCode != 6 || b.read("starts") != "x" {
		b.Errorf("got %+v and the starts %q, want exit code 6 and one start", o, b.read("starts"))
	}
	b.wantUnreported(job)
}

func leftAndResumed(b *bench) {
	job := b.job(`echo x >>$T/starts; while ! test -e $T/end; do sleep 0.05; done; exit 6`)
	for range 2 {
		x, _ := b.begin(job)
		x.end(agents.ErrDetached)
		b.want(<-x.out, agents.Lost, "")
		job = agents.Job{RunID: job.RunID, Instance: job.Instance}
	}
	b.wantUnreported(job, job.RunID)
	x := b.runInBackground(b.exec, job)
	b.touch("end")
	o := <-x.out
	b.want(o, agents.Failed, "exit status 6")
	if o.ExitCode != 6 || b.read("starts") != "x" {
		b.Errorf("got %+v and the starts %q, want exit code 6 and one start", o, b.read("starts"))
	}
}

func unreportedCancelled(b *bench) {
	job := b.job(`echo $$ >$T/pids; while :; do sleep 0.05; done`)
	b.startDetached(job)
	b.eventually("the program runs", func() bool { return b.read("pids") != "" })
	ctx, cancel := context.WithCancelCause(b.Context())
	cancel(errors.New("its journal is gone"))
	b.want(b.exec.Run(ctx, agents.Job{RunID: job.RunID}, nil), agents.Cancelled, "its journal is gone")
	b.wantEnded("pids")
	b.wantUnreported(job)
}

func unreportedEnd(b *bench) {
	job := b.job(`while ! test -e $T/end; do sleep 0.05; done; echo $$ >$T/pids
		echo '{"outcome":"refused","reason":"it says nothing"}' >$DISINTO_RESULT`)
	b.startDetached(job)
	b.touch("end")
	b.eventually("the program ended", func() bool { return b.read("pids") != "" })
	b.wantUnreported(job, job.RunID)
	b.want(b.exec.Run(b.Context(), agents.Job{RunID: job.RunID}, nil), agents.Refused, "it says nothing")
	b.wantUnreported(job)
}

// forgotten applies to an executor that keeps each outcome until Forget; others keep them as long as they like.
func forgotten(b *bench) {
	type forgetter interface{ Forget(runID string) }
	if _, ok := b.exec.(forgetter); !ok {
		b.Skip("this executor forgets nothing")
	}
	job := b.job(`echo x >>$T/starts; exit 6`)
	b.want(b.run(job), agents.Failed, "exit status 6")
	for range 2 { // a supervisor that was killed before it had journalled the end, and the next one
		b.exec = b.subject.New(b.T)
		b.wantUnreported(job, job.RunID)
		b.want(b.exec.Run(b.Context(), agents.Job{RunID: job.RunID}, nil), agents.Failed, "exit status 6")
	}
	for range 2 {
		b.exec.(forgetter).Forget(job.RunID)
	}
	b.want(b.exec.Run(b.Context(), agents.Job{RunID: job.RunID}, nil), agents.Lost, "")
	b.exec = b.subject.New(b.T)
	b.wantUnreported(job)
	b.want(b.exec.Run(b.Context(), agents.Job{RunID: job.RunID}, nil), agents.Lost, "")
	if b.read("starts") != "x" {
		b.Errorf("got the starts %q, want one", b.read("starts"))
	}
}
