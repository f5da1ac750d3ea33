package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/wire"
)

// other simulates another build.
type other struct {
	*Shadow
	log    bytes.Buffer
	asked  atomic.Int64
	takes  time.Duration
	err    error
	plan   threads.Plan
	config *threads.Config
}

// with runs f with a shadow whose Keep runs.
func with(t *testing.T, f func(o *other)) {
	synctest.Test(t, func(t *testing.T) {
		o := &other{config: &threads.Config{Factory: threads.Factory{Shadow: "/opt/new"}}, takes: 100 * time.Millisecond}
		o.Shadow = &Shadow{Run: o.run, Log: hclog.New(&hclog.LoggerOptions{Output: &o.log}), Changed: func() {}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.Keep(ctx)
		}()
		f(o)
		stop()
		<-done
	})
}

func (o *other) run(ctx context.Context, program string, question []byte) ([]byte, error) {
	o.asked.Add(1)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(o.takes):
	}
	if o.err != nil {
		return nil, o.err
	}
	if !bytes.HasPrefix(question, []byte(`{"format":1,"snapshot":{`)) {
		return nil, fmt.Errorf("%s was asked %s", program, question)
	}
	plan, err := wire.EncodePlan(&o.plan)
	return fmt.Appendf(nil, `{"format":1,"program":"v1.2","plan":%s}`+"\n", plan), err
}

// decide simulates a tick with a plan, and reports whether its decision was handed over.
func (o *other) decide(p threads.Plan) bool {
	if !o.Wants(o.config, &p, time.Now()) {
		return false
	}
	o.Hand((&threads.Snapshot{Now: time.Now(), Config: o.config}).Freeze(&p, nil))
	return true
}

// pass advances the time, with the events in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (o *other) document() *control.ShadowDocument { return o.Document(o.config) }

// holds returns a plan that holds issues, and with start starts one on the first of them.
func holds(code threads.Code, start bool, numbers ...int64) (p threads.Plan) {
	for _, n := range numbers {
		item := threads.Item{Kind: agents.KindIssue, Ref: forge.Ref{Repo: "o/r", Number: n}}
		if start {
			p.Starts, start = append(p.Starts, threads.Start{Item: item, Agent: "dev-a", Thread: "llama"}), false
			continue
		}
		p.Holds = append(p.Holds, &threads.Hold{Item: item, Reason: &threads.Reason{Code: code}})
	}
	return p
}

// A difference is reported with both reasons, logged once, and counted once per day; the newest are listed first.
func TestDifferencesAreToldOnce(t *testing.T) {
	with(t, func(o *other) {
		o.plan = holds("later", true, 17)
		for range 3 {
			if !o.decide(holds("slot-kept", false, 17)) {
				t.Fatal("the decision was not handed over")
			}
			pass(time.Minute)
		}
		first := "shadow v1.2 on o/r#17: it would start dev-a (issue) on llama, slot 0; in charge: hold it: "
		if n := strings.Count(o.log.String(), first); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, o.log.String())
		}
		pass(24 * time.Hour)
		o.plan = holds("later", true, 18, 17)
		o.decide(holds("slot-kept", false, 17))
		pass(time.Minute)
		d := o.document()
		if len(d.Days) != 2 || d.Days[1].Decisions != 3 || d.Days[1].Differing != 3 || d.Days[1].Differences != 1 ||
			d.Days[0].Differences != 2 || d.Total.Decisions != 4 || d.Total.Differences != 3 {
			t.Errorf("days %+v, total %+v, want one difference a day and pair of reasons", d.Days, d.Total)
		}
		if len(d.Differs) != 3 || d.Differs[2].Times != 3 || d.Differs[2].Last.Sub(d.Differs[2].First) != 2*time.Minute {
			t.Errorf("got differences %+v, want 3, the oldest seen three times", d.Differs)
		}
		if d.Version != "v1.2" || d.Path != "/opt/new" ||
			!strings.Contains(d.Line(time.Now()), "2 differences today, in 1 of 1") {
			t.Errorf("got %s, want 2 differences today", d.Line(time.Now()))
		}
	})
}

// For a build that decides everything differently, the log has ten lines per answer, and the status 50 items.
func TestDifferencesAreBounded(t *testing.T) {
	with(t, func(o *other) {
		var all []int64
		for n := range int64(3 * maxSeen / 2) {
			all = append(all, n+1)
		}
		o.plan = holds("later", false, all...)
		for range 2 {
			o.decide(holds("slot-kept", false, all...))
			pass(time.Minute)
		}
		d := o.document()
		if n := strings.Count(o.log.String(), "\n"); n != logged+1 ||
			!strings.Contains(o.log.String(), "1990 more differences") {
			t.Errorf("logged %d lines, want ten and the rest's number: %s", n, o.log.String())
		}
		if len(d.Differs) != control.ShadowDiffers || d.Total.Differences != maxSeen || d.Days[0].Decisions != 2 {
			t.Errorf("%d listed, %+v, want the bounds", len(d.Differs), d.Total)
		}
		o.plan = threads.Plan{}
		for range 30 {
			pass(24 * time.Hour)
			o.decide(threads.Plan{})
			pass(time.Minute)
		}
		if d := o.document(); len(d.Days) != control.ShadowDays {
			t.Errorf("got %d days, want 7", len(d.Days))
		}
	})
}

// At most one decision waits: the newest, but one without an action does not replace one with an action. After an
// answer the other build rests, and ten seconds separate two decisions without an action.
func TestNewestWins(t *testing.T) {
	with(t, func(o *other) {
		o.takes = time.Second
		quiet, busy := holds("x", false, 1), holds("x", true, 1)
		if !o.decide(quiet) || o.decide(quiet) {
			t.Error("want the first decision handed over, and not an equal second one")
		}
		pass(0) // the question starts
		for range 5 {
			if !o.decide(busy) {
				t.Error("a decision with a start was not handed over")
			}
		}
		pass(stillRest / 2)
		if o.decide(quiet) {
			t.Error("a decision without an action replaced a start")
		}
		if d := o.document(); int(o.asked.Load()) != 1 || d.Total.Skipped != 5 {
			t.Errorf("asked %d times, skipped %d, want 1 and 5", int(o.asked.Load()), d.Total.Skipped)
		}
		pass(time.Minute)
		if d := o.document(); int(o.asked.Load()) != 2 || d.Total.Decisions != 2 {
			t.Errorf("asked %d times, %d decisions, want 2 and 2", int(o.asked.Load()), d.Total.Decisions)
		}
		for range 60 { // in a minute
			o.decide(busy)
			pass(time.Second)
		}
		if int(o.asked.Load()) > 2+60/(1+share)+1 {
			t.Errorf("asked %d times in a minute: too large a share of a processor", int(o.asked.Load()))
		}
	})
}

// A build that does not answer gets fewer and fewer questions, and the log reports the silence once.
func TestFailuresRest(t *testing.T) {
	with(t, func(o *other) {
		o.err = errors.New("it died\x1b[2J of itself")
		for range 3600 {
			o.decide(holds("x", true, 1))
			pass(time.Second)
		}
		if int(o.asked.Load()) < 9 || int(o.asked.Load()) > 12 { // after 10 s, 20 s, ... 10 min
			t.Errorf("asked %d times in an hour, want 9 to 12", int(o.asked.Load()))
		}
		if n := strings.Count(o.log.String(), "\n"); n != 1 || !strings.Contains(o.log.String(), "died [2J of") {
			t.Errorf("logged %d lines, want 1: %s", n, o.log.String())
		}
		if d := o.document(); d.Error != "it died [2J of itself" || d.Total.Failed != int(o.asked.Load()) ||
			d.Total.Decisions != 0 {
			t.Errorf("got %+v, want only failures, with a tame error", d)
		}
		o.err = nil
		for range 1200 {
			o.decide(holds("x", true, 1))
			pass(time.Second)
		}
		if d := o.document(); d.Error != "" || !strings.Contains(o.log.String(), "shadow v1.2 answers again") {
			t.Errorf("got %+v, want no error and a line about that", d)
		}
	})
}

// A newly configured program gets a question at once, and the findings about the old one are forgotten. Without a
// program there is no question.
func TestOtherProgram(t *testing.T) {
	with(t, func(o *other) {
		o.plan = holds("later", true, 17)
		o.takes = time.Minute
		o.decide(holds("x", false, 17))
		pass(0)
		o.config = &threads.Config{Factory: threads.Factory{Shadow: "/opt/newer"}}
		if d := o.document(); d.Path != "/opt/newer" || d.Total.Decisions+len(d.Differs) > 0 {
			t.Errorf("got %+v, want nothing known of the new program", d)
		}
		o.takes = time.Second
		if !o.decide(holds("x", false, 17)) {
			t.Error("the decision was not handed over")
		}
		pass(2 * time.Second) // the question to the first was ended
		if d := o.document(); d.Total.Decisions != 1 || d.Total.Failed != 0 || len(d.Differs) != 1 {
			t.Errorf("got %+v, want one decision and one difference", d)
		}
		o.config = &threads.Config{}
		if o.decide(holds("x", true, 17)) || o.document() != nil {
			t.Error("a decision was handed over without a program")
		}
	})
}

// An upgrade does not wait for an answer.
func TestKeepStill(t *testing.T) {
	with(t, func(o *other) {
		o.takes = time.Hour
		o.decide(holds("x", true, 17))
		pass(0)
		o.decide(holds("x", true, 18))
		began := time.Now()
		o.KeepStill(true)
		pass(0)
		if o.decide(holds("x", true, 17)) || time.Since(began) > 0 {
			t.Error("the question was not ended at once")
		}
		o.KeepStill(false)
		o.takes = time.Second
		pass(time.Minute)
		if d := o.document(); int(o.asked.Load()) != 1 || d.Total.Failed != 0 {
			t.Errorf("asked %d times, %+v, want 1 and no failure", int(o.asked.Load()), d.Total)
		}
		o.decide(holds("x", true, 17))
		pass(time.Minute)
		if d := o.document(); d.Total.Decisions != 1 {
			t.Errorf("got %+v, want one decision", d.Total)
		}
	})
}
