package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// silentForge answers no release.
type silentForge struct{ Forge }

func (silentForge) Release(ctx context.Context, _ forge.Ref, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// A release waits for the forge like every other call, but not while the supervisor stops.
func TestReleaseWhileStopping(t *testing.T) {
	for stopping, want := range map[bool]time.Duration{false: callTimeout, true: releaseTime} {
		synctest.Test(t, func(t *testing.T) {
			until, stop := context.WithCancel(t.Context())
			defer stop()
			if stopping {
				stop()
			}
			rn := &sessionRunner{core: &core{log: hclog.NewNullLogger(), until: until, base: t.Context()}}
			rn.forge.set(silentForge{})
			began := time.Now()
			rn.release(&session{agent: agents.Agent{Login: "qwen"}})
			if took := time.Since(began); took != want {
				t.Errorf("stopping %v: a release without an answer ended after %s, want %s", stopping, took, want)
			}
		})
	}
}
