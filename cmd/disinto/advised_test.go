package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
)

// One slot did an issue an hour for a day while two more issues waited. A second slot would have done more.
func TestAdvised(t *testing.T) {
	q := supervisor.WhatIf{
		Ask: control.SimulateRequest{Days: 30}, Config: whatIfConfig(t), Past: waited(8),
	}
	for n := range int64(2) {
		q.Facts.Issues = append(q.Facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "owner/name", Number: 100 + n}, Created: q.Past[0].Start, Labels: []string{forge.LabelBacklog},
		})
	}
	d, err := advised(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if d.Sessions != 8 || d.Days != 30 || d.Now.Issues.Mean != 10 || d.Now.Done.Mean > 9 {
		t.Errorf("got %+v", d)
	}
	if best := d.More[0]; best.Done.Low <= 0 || best.Open.High >= 0 {
		t.Errorf("got %+v, want more issues done and less time open", best)
	}
	again, err := advised(t.Context(), q)
	if err != nil || again.More[0] != d.More[0] {
		t.Errorf("the same request: got %+v, then %+v (%v)", d.More[0], again.More[0], err)
	}
}

// advised refuses if nothing is known, and stops when its time is over.
func TestAdvisedRefuses(t *testing.T) {
	q := supervisor.WhatIf{Ask: control.SimulateRequest{Days: 7}, Config: whatIfConfig(t)}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, tt := range []struct {
		past, status int
		ctx          context.Context
	}{{0, http.StatusConflict, t.Context()}, {3, http.StatusServiceUnavailable, late}} {
		q.Past = waited(tt.past)
		d, err := advised(tt.ctx, q)
		no := (*control.Refusal)(nil)
		if !errors.As(err, &no) || no.Status != tt.status {
			t.Errorf("%d sessions: got %+v, %v", tt.past, d, err)
		}
	}
}
