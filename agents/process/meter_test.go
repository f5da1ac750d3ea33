package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// The counted usage never shrinks. The log reports once a usage that does not count, and not a half-written file.
func TestMeter(t *testing.T) {
	used := func(tokens int64, usd float64) agents.Usage { return agents.Usage{InputTokens: tokens, CostUSD: usd} }
	half := errors.New("half a document")
	var m meter
	for i, look := range []struct {
		said  agents.Usage
		err   error
		grown bool
		odd   string
		want  agents.Usage
	}{
		{used(10, 1), nil, true, "", used(10, 1)},
		{used(10, 1), nil, false, "", used(10, 1)},
		{agents.Usage{}, half, false, "", used(10, 1)}, // while it is written
		{used(20, 1), nil, true, "", used(20, 1)},
		{used(5, 2), nil, true, "", used(20, 2)}, // each number counts separately
		{used(5, 2), nil, false, "its usage shrank to 5 tokens and $2.00, 20 and $2.00 count", used(20, 2)},
		{used(5, 2), nil, false, "", used(20, 2)}, // logged once
		{agents.Usage{}, half, false, "", used(20, 2)},
		{agents.Usage{}, half, false, "", used(20, 2)},
		{used(30, 2), nil, true, "", used(30, 2)},
	} {
		grown, odd := m.merge(look.said, look.err)
		if grown != look.grown || odd != look.odd || m.used != look.want {
			t.Errorf("look %d: grown %v, %q, %+v; want %v, %q, %+v", i, grown, odd, m.used, look.grown, look.odd, look.want)
		}
	}
}

// A pipe that never answers does not block the watch, a link to one of our files is not read, and numbers that no
// session can have used do not count.
func TestReadUsage(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good", `{"usage":{"input_tokens":3,"output_tokens":4}}`)
	write("done", `{"outcome":"done","usage":{"input_tokens":3,"output_tokens":4}}`)
	write("silent", `{"outcome":"done"}`)
	write("negative", `{"usage":{"input_tokens":-3}}`)
	write("absurd", `{"usage":{"cost_usd":1e300}}`)
	write("no number", `{"usage":{"cost_usd":NaN}}`)
	write("endless", `{"usage":{"cost_usd":1e999}}`)
	write("long", strings.Repeat(" ", agents.MaxResult+1))
	if err := errors.Join(unix.Mkfifo(at("pipe"), 0o600), os.Symlink(at("good"), at("link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		tokens int64
		wrong  string
	}{
		"good": {7, ""}, "done": {7, ""}, "silent": {0, ""}, "missing": {0, ""},
		"negative": {0, "negative usage"}, "absurd": {0, "more than"}, "no number": {0, "not the JSON"},
		"endless": {0, "not the JSON"}, "long": {0, "plain file"}, "pipe": {0, "plain file"}, "link": {0, "plain file"},
	} {
		u, _, err := readProgress(at(name), nil)
		if u.Tokens() != want.tokens || (err == nil) != (want.wrong == "") || err != nil &&
			!strings.Contains(err.Error(), want.wrong) {
			t.Errorf("%s: %+v, %v, want %+v", name, u, err, want)
		}
	}
}

// The executor reports a program's usage while it runs, and the supervisor can end the session. A counted usage stays
// counted even if the program then reports less, or dies without a result.
func TestSpent(t *testing.T) {
	t.Parallel()
	for name, atLast := range map[string]string{
		"it dies":          "exit 1",
		"it says less":     `echo '{"outcome":"done","usage":{"input_tokens":1}}' >$DISINTO_RESULT; exit 0`,
		"it says nonsense": `echo '{"usage":{"input_tokens":-1}}' >$DISINTO_RESULT; exit 0`,
	} {
		if name == "it says nonsense" && storm(1, 0) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, `trap '`+strings.ReplaceAll(atLast, "'", `'\''`)+`' TERM
				echo '{"usage":{"input_tokens":40,"output_tokens":2}}' >$DISINTO_RESULT
				while :; do sleep 0.1; done`)
			ctx, cancel := context.WithCancelCause(t.Context())
			limit := errors.New("42 of 42 tokens")
			job.Spent = func(u agents.Usage) {
				if u.Tokens() >= 42 {
					cancel(limit)
				}
			}
			o := (&Executor{Reaper: reaper}).Run(ctx, job, nil)
			if o.Result != agents.Cancelled || !strings.Contains(o.Reason, limit.Error()) || o.Usage.Tokens() != 42 {
				t.Errorf("outcome %+v, want cancelled at 42 tokens", o)
			}
		})
	}
}

// The executor reports the phase of a program each time that it changes.
func TestDoing(t *testing.T) {
	t.Parallel()
	job := newJob(t, `echo '{"usage":{},"doing":{"phase":"setup","since":"2026-01-02T03:04:05Z"}}' >$DISINTO_RESULT
		while ! test -e seen; do sleep 0.1; done
		echo '{"usage":{}}' >$DISINTO_RESULT; while ! test -e over; do sleep 0.1; done`)
	var got []agents.Doing
	job.Doing = func(d agents.Doing) {
		got = append(got, d)
		name := []string{"seen", "over"}[min(len(got), 2)-1]
		if err := os.WriteFile(filepath.Join(job.Dir, name), nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	job.Spent = func(agents.Usage) {}
	o := (&Executor{Reaper: reaper}).Run(t.Context(), job, nil)
	want := []agents.Doing{{Phase: agents.PhaseSetup, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, {}}
	if !slices.Equal(got, want) || o.Result != agents.Done {
		t.Errorf("got %+v and %+v, want %+v", got, o, want)
	}
}
