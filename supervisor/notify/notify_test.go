package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// bureau is a notifier in a synctest bubble, and the letters that its recipients got.
type bureau struct {
	*Notifier
	t      *testing.T
	config atomic.Pointer[threads.Config]
	log    bytes.Buffer
	began  time.Time

	mu   sync.Mutex // guards the fields below
	got  []string   // time, host and text of each letter
	fail map[string]error
	hang map[string]bool
}

// open starts a notifier with urls and a state directory.
func open(t *testing.T, dir string, urls ...string) (b *bureau, end func()) {
	b = &bureau{t: t, began: time.Now(), fail: map[string]error{}, hang: map[string]bool{}}
	b.config.Store(configOf(t, urls...))
	b.Notifier = &Notifier{
		Config: b.config.Load, StateDir: dir, Deliver: b.deliver,
		Log: hclog.New(&hclog.LoggerOptions{Output: &b.log, DisableTime: true}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	synctest.Wait()
	return b, func() {
		cancel()
		running.Wait()
		synctest.Wait()
	}
}

func (b *bureau) deliver(ctx context.Context, to threads.Recipient, l Letter) error {
	b.mu.Lock()
	err, hangs := b.fail[to.Host], b.hang[to.Host]
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, fmt.Sprintf("%s %s %s", time.Since(b.began), to.Host, l.Text))
	return nil
}

// letters returns the letters that arrived since the last call.
func (b *bureau) letters() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.got)
	all := strings.Join(b.got, "\n")
	b.got = nil
	return all
}

func (b *bureau) want(what, want string) {
	b.t.Helper()
	if got := b.letters(); got != want {
		b.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// needing is a status in which the numbered items need a person.
func needing(numbers ...int64) *control.Document {
	d := healthy()
	for _, n := range numbers {
		d.Queue = append(d.Queue, row(n, threads.GaveUp, "gave up"))
	}
	return d
}

func TestNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := open(t, t.TempDir(), "ntfy://a/topic", "ntfy://b/topic")
		b.RecordStatus(needing())
		b.want("healthy factory", "")
		b.RecordStatus(needing(1))
		b.want("first cause", "0s a johba/harb#1 Add a LICENSE: gave up\n0s b johba/harb#1 Add a LICENSE: gave up")
		for range 100 {
			time.Sleep(time.Second)
			b.RecordStatus(needing(1))
		}
		b.want("same cause again", "")
		b.RecordMerge(forge.Ref{Repo: "johba/harb", Number: 12}, "Add <a> LICENSE")
		b.want("a merge", "1m40s a johba/harb#12 Add ‹a› LICENSE\n1m40s b johba/harb#12 Add ‹a› LICENSE")
		down := needing(1)
		down.Forge.OK, down.Forge.Error = false, "no route"
		b.RecordStatus(down)
		time.Sleep(59 * time.Second)
		b.want("forge down for 59 s", "")
		time.Sleep(time.Second) // without a new status
		b.want("forge down for a minute",
			"2m40s a the forge does not answer: no route\n2m40s b the forge does not answer: no route")
		b.RecordStatus(needing(1))
		time.Sleep(time.Minute)
		b.want("forge up again", "3m40s a the forge answers again\n3m40s b the forge answers again")
		if lines := b.Problems(); len(lines) > 0 || b.log.Len() > 0 {
			t.Errorf("got problems %q and log %q, want none", lines, b.log.String())
		}
		end()
	})
}

// A recipient that hangs or refuses delays nothing else. Its letters are retried, the status shows the problem, the
// log has it once, and afterwards the recipient gets all that it missed.
func TestNotifierFailure(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, end := open(t, t.TempDir(), "ntfy://good/topic", "ntfy://:s3cret-token@bad/topic")
			b.hang["bad"] = hangs
			b.fail["bad"] = errors.New("refused s3cret-token\n\x1b[31m")
			for n := range int64(10) {
				before := time.Now()
				b.RecordStatus(needing(1, n+2))
				if waited := time.Since(before); waited > 0 {
					t.Fatalf("hangs %v: Saw took %s, want no time", hangs, waited)
				}
				time.Sleep(time.Minute)
			}
			if got := b.letters(); strings.Count(got, " good ") != 11 || strings.Contains(got, " bad ") {
				t.Errorf("hangs %v: got letters\n%s", hangs, got)
			}
			lines := b.Problems()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "cannot send messages to url 2 of [notify] (ntfy bad): ") ||
				!strings.Contains(lines[0], "waiting 11, dropped 0") || strings.Contains(lines[0], "s3cret") {
				t.Errorf("hangs %v: got problems %q", hangs, lines)
			}
			b.mu.Lock()
			b.hang["bad"], b.fail["bad"] = false, nil
			b.mu.Unlock()
			time.Sleep(lastRetry)
			if got := b.letters(); strings.Count(got, "\n") != maxListed ||
				!strings.HasSuffix(got, "and 1 more: `disinto status` has all of them") {
				t.Errorf("hangs %v: after recovery got letters\n%s", hangs, got)
			}
			if lines := b.Problems(); len(lines) > 0 {
				t.Errorf("hangs %v: after recovery got problems %q, want none", hangs, lines)
			}
			end()
			log := b.log.String()
			if strings.Count(log, "[WARN]") != 1 || strings.Count(log, "arrive again") != 1 || strings.Contains(log, "s3cret") {
				t.Errorf("hangs %v: got the log\n%s", hangs, log)
			}
		})
	}
}

// A restart repeats no message, and sends those that the last supervisor could not.
func TestNotifierRestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b, end := open(t, dir, "ntfy://a/topic")
		b.RecordStatus(needing(1, 2))
		b.want("two issues", "0s a johba/harb#1 Add a LICENSE: gave up\n0s a johba/harb#2 Add a LICENSE: gave up")
		b.fail["a"] = errors.New("refused")
		b.RecordStatus(needing(1, 2, 3))
		b.want("a third one", "")
		end()
		unread := &control.Document{Forge: control.ForgeDocument{URL: "http://forge"}}
		b, end = open(t, dir, "ntfy://a/topic")
		b.RecordStatus(unread)
		time.Sleep(10 * time.Second)
		b.RecordStatus(needing(1, 2, 3, 4))
		b.want("after a restart", "10s a johba/harb#3 Add a LICENSE: gave up\n10s a johba/harb#4 Add a LICENSE: gave up")
		end()
		b, end = open(t, dir, "ntfy://a/topic")
		b.RecordStatus(needing(1, 2, 3, 4))
		b.want("after another one", "")
		end()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte("[{"), 0o600); err != nil {
			t.Fatal(err)
		}
		b, end = open(t, dir, "ntfy://a/topic")
		b.RecordStatus(needing(1, 2, 3, 4, 5, 6, 7, 8))
		if got := b.letters(); strings.Count(got, "0s a ") != 1 || strings.Count(got, "gave up") != 8 {
			t.Errorf("with a broken file: want one digest, got:\n%s", got)
		}
		end()
	})
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got the file %v, error %v", info, err)
	}
}

// A reload changes the recipients. Messages that no old recipient got go to the new ones.
func TestNotifierReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := open(t, t.TempDir())
		b.RecordStatus(needing(1))
		b.want("without urls", "")
		b.config.Store(configOf(t, "ntfy://wrong/topic"))
		b.fail["wrong"] = errors.New("no such host")
		b.RecordStatus(needing(1))
		b.want("with a wrong one", "")
		b.config.Store(configOf(t, "ntfy://right/topic"))
		b.RecordStatus(needing(1))
		b.letters() // the old recipient is removed
		b.RecordStatus(needing(1))
		b.want("with a right one", "0s right johba/harb#1 Add a LICENSE: gave up")
		if lines := b.Problems(); len(lines) > 0 {
			t.Errorf("got problems of a removed url: %q", lines)
		}
		only := configOf(t, "ntfy://right/topic")
		only.Notify.On = []threads.Topic{threads.NotifyDown}
		b.config.Store(only)
		b.RecordStatus(needing(1, 2))
		b.RecordMerge(forge.Ref{Repo: "johba/harb", Number: 12}, "x")
		b.want("topics that are not wanted", "")
		b.config.Store(configOf(t))
		b.RecordStatus(needing(1, 2, 3))
		b.want("without urls again", "")
		if b.hasMailboxes() {
			t.Error("a goroutine still runs")
		}
		end()
	})
}

// A panic in a sender does not end the notifier.
func TestNotifierPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := open(t, t.TempDir(), "ntfy://a/topic")
		deliver, panics := b.Deliver, 1
		b.Deliver = func(ctx context.Context, to threads.Recipient, l Letter) error {
			if panics--; panics == 0 {
				panic("a mistake")
			}
			return deliver(ctx, to, l)
		}
		b.RecordStatus(needing(1))
		b.want("the panic", "")
		time.Sleep(panicRest)
		b.want("after the rest", "30s a johba/harb#1 Add a LICENSE: gave up")
		end()
	})
}
