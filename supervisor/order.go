package supervisor

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// send journals the facts by which the end of a session is judged. The session must not run before they are on the
// disk.
func (rn *sessionRunner) send(x *session) error {
	if err := rn.state.append(ledger.Record{At: time.Now(), Sent: ledger.SentOf(x.RunID, &x.Item)}); err != nil {
		return err
	}
	rn.state.sent(x)
	return nil
}

func (st *state) sent(x *session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	x.sent = true
}

// order gives a session to its executor, and waits for its end. The executor ends the session after the journal has
// the reason of x.ctx.
func (rn *sessionRunner) order(x *session, job agents.Job, started func(agents.Started)) agents.Outcome {
	ctx, end := context.WithCancelCause(context.WithoutCancel(x.ctx))
	defer end(nil)
	told := make(chan struct{})
	stop := context.AfterFunc(x.ctx, func() {
		defer close(told)
		rn.safely("the stop of "+x.tag, func() { rn.recordStop(x) })
		end(context.Cause(x.ctx))
	})
	if x.ctx.Err() != nil { // the program must not even start
		<-told
	}
	out := rn.executor(x.thread.Executor).Run(ctx, job, started)
	if !stop() {
		<-told
	}
	return x.redacted(out)
}

// recordStop journals why reconcile or a person ends a session.
func (rn *sessionRunner) recordStop(x *session) {
	if why := x.stop(); why.code != "" {
		stop := &ledger.Stop{Run: x.RunID, Code: why.code, Why: agents.Redact(why.why, x.secrets)}
		rn.state.record(ledger.Record{At: time.Now(), Stop: stop})
	}
}
