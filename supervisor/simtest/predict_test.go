package simtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// lived plays some days of a factory with a real supervisor in virtual time, and returns its journal. Sessions take
// lognormal times, three of ten reviews want changes, one of twenty sessions fails, and issues come at random.
func lived(t *testing.T, seed uint64, days int, perDay float64, poll time.Duration) (j sim.Journal,
	config *threads.Config,
) {
	w := New(t)
	w.poll(poll, poll)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 7))
	w.Exec.Script = func(job agents.Job, n int) Script {
		mu.Lock()
		defer mu.Unlock()
		s := w.Work(job, n)
		mean := 20 * time.Minute
		if job.Kind == agents.KindReview {
			mean = 5 * time.Minute
		}
		s.Takes = time.Duration(float64(mean) * math.Exp(0.6*rng.NormFloat64()-0.18))
		switch p := rng.Float64(); {
		case p < 0.05:
			s.Do, s.Outcome = nil, agents.Outcome{Result: agents.Failed, Reason: "tests fail", Claimed: true}
		case p < 0.35 && job.Kind == agents.KindReview && n < 4:
			s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
		}
		return s
	}
	l := w.Start()
	arrivals := rand.New(rand.NewPCG(seed, 8))
	for end, n := time.Now().Add(time.Duration(days)*24*time.Hour), 1; time.Now().Before(end); n++ {
		w.Forge.Issue(fmt.Sprint("issue ", n))
		time.Sleep(time.Duration(arrivals.ExpFloat64() * float64(24*time.Hour) / perDay))
	}
	w.Until(24*time.Hour, "all is merged", w.Forge.Done)
	l.Stop()
	w.Check()
	file, err := os.Open(filepath.Join(w.Dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	j.Past, j.Timeline, err = ledger.ReadHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	return j, w.Config
}

// TestPrediction simulates a week that a real supervisor has lived, from its journal: the median and the 95 % wait come
// out within 15 %. The factory is busy: where few issues come, or polls are 10 minutes apart, the 95 % wait is that of
// a handful of issues, and luck makes it a third longer or shorter.
func TestPrediction(t *testing.T) {
	if !Storms() {
		t.Skip("takes a minute")
	}
	const week = 7 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		j, config := lived(t, 0, 7, 45, time.Minute)
		was := sim.Happened(j.Past, j.Timeline, config, week)
		trial := sim.Replay(j, config, week)
		trial.Policy = sim.Ours
		var half, most time.Duration
		const seeds = 5 // the moments of polls are luck
		for trial.Seed = range uint64(seeds) {
			is := trial.Run()
			half, most = half+is.First.P50/seeds, most+is.First.P95/seeds
			if is.Merged != was.Done || is.Twice > 0 {
				t.Errorf("%d merged, %d twice, of %d", is.Merged, is.Twice, was.Done)
			}
		}
		t.Logf("%d issues, %d sessions: waits %s, simulated %s; 95 %% %s, simulated %s",
			was.Issues, was.Sessions, was.First.P50, half, was.First.P95, most)
		for _, w := range [][2]time.Duration{{half, was.First.P50}, {most, was.First.P95}} {
			if ratio := w[0].Seconds() / w[1].Seconds(); ratio < 0.85 || ratio > 1.15 {
				t.Errorf("%s simulated, %s lived", w[0], w[1])
			}
		}
	})
}
