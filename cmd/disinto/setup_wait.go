//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// rereadTime is the timeout for a supervisor to notice a changed file: fileInterval, and a margin for a busy machine.
const rereadTime = 2*fileInterval + time.Second

// configWaiter waits until a running supervisor uses the files that hiring or retiring has changed.
type configWaiter struct {
	client   *control.Client
	agent    string
	retiring bool
	before   int // generation of the configuration before the change
}

// lastSession is the timeout for the session of a retired agent to end: a scan of the forge and the grace.
const lastSession = 20 * time.Second

// start notes the generation of the supervisor's configuration. Call it before any change.
func (s *configWaiter) start(ctx context.Context, state string) {
	s.client = control.NewClient(state)
	var doc control.Document
	if s.client.Get(ctx, "/v1/state", &doc) == nil {
		s.before = doc.Config.Generation
	}
}

// waitReread waits until the supervisor has read the files again. It returns why that did not happen in time; "" on
// success.
func (s *configWaiter) waitReread(ctx context.Context) (string, error) {
	return s.waitUntil(ctx, rereadTime, func(doc *control.Document) string {
		isOurs := func(a control.AgentDocument) bool { return a.Name == s.agent }
		if s.retiring && slices.ContainsFunc(doc.Agents, isOurs) || !s.retiring && doc.Config.Generation == s.before {
			why := "the running supervisor has not read the files again"
			if doc.Config.Error != "" {
				why += ": " + firstLine(doc.Config.Error)
			}
			return why
		}
		return ""
	})
}

// releaseItems waits until the supervisor knows that the agent is gone, and makes it release the agent's items:
// otherwise the agent's sessions would run to their end. It returns why that failed; "" on success.
func (s *configWaiter) releaseItems(ctx context.Context) (string, error) {
	if why, err := s.waitReread(ctx); why != "" || err != nil {
		return why, err
	}
	var doc control.Document
	if err := s.client.Get(ctx, "/v1/state", &doc); err != nil {
		return "", ctx.Err() // no supervisor runs
	}
	for _, x := range doc.Sessions {
		if x.Agent != s.agent || x.Number == 0 { // scheduled work has no claim
			continue
		}
		var r control.Report
		ref := forge.Ref{Repo: x.Repo, Number: x.Number}
		if err := s.client.Post(ctx, "/v1/release", control.ItemRequest{Ref: ref.String()}, &r); err != nil {
			return err.Error(), ctx.Err()
		}
	}
	return "", nil
}

// stillInUse returns why an old token cannot be revoked yet; "" if it can.
func (s *configWaiter) stillInUse(ctx context.Context) (string, error) {
	if why, err := s.waitReread(ctx); why != "" || err != nil {
		return why, err
	}
	patience := time.Duration(0)
	if s.retiring {
		patience = lastSession
	}
	return s.waitUntil(ctx, patience, func(doc *control.Document) string { return atWork(doc, s.agent) })
}

// waitUntil polls the supervisor's state until objection returns "", no supervisor runs, or patience has passed. It
// returns the last objection.
func (s *configWaiter) waitUntil(
	ctx context.Context, patience time.Duration, objection func(*control.Document) string,
) (string, error) {
	deadline := time.Now().Add(patience)
	for {
		var doc control.Document
		err := s.client.Get(ctx, "/v1/state", &doc)
		if errors.Is(err, control.ErrNoSupervisor) {
			return "", nil
		}
		if err != nil {
			return err.Error(), ctx.Err()
		}
		why := objection(&doc)
		if why == "" || time.Now().After(deadline) {
			return why, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// atWork describes the agent's session; "" if it is idle.
func atWork(doc *control.Document, agent string) string {
	for _, s := range doc.Sessions {
		if s.Agent != agent {
			continue
		}
		if s.Number == 0 {
			return agent + " is at work"
		}
		return fmt.Sprintf("%s works on %s#%d", agent, s.Repo, s.Number)
	}
	return ""
}
