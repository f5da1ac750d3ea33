package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Result is the result of one issue on the forge.
type Result struct {
	Issue     int64     `json:"issue"`
	Title     string    `json:"title"`
	Pull      int64     `json:"pull"` // the merged pull request for the issue; 0 without one
	Author    string    `json:"author"`
	Approvers []string  `json:"approvers"` // accounts that approved the head, except the author
	Rounds    int       `json:"rounds"`    // the number of requests for changes
	ClosedAt  time.Time `json:"closed_at,omitzero"`
}

// Report is the supervisor's last status, and the result of the demo.
type Report struct {
	*control.Document
	Merged     []Result `json:"merged"`   // in the order of their merges
	Switches   int      `json:"switches"` // changes of agents in slots of sticky threads
	Violations []string `json:"violations"`

	Missing []int64  `json:"-"` // issues that should have been merged
	Used    []string `json:"-"` // agents that ran a session
	Looked  int      `json:"-"` // the number of audited sessions
}

// Report reads the results of the backlog from the forge and audits them with the supervisor's events.
func (w *World) Report(ctx context.Context, d *control.Document, a *Audit, config *threads.Config) (*Report, error) {
	results, err := w.results(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the demo's results from the forge: %w", err)
	}
	r := &Report{
		Document: d, Merged: []Result{}, Switches: a.Switches(config),
		Violations: a.Violations(config, results), Used: a.Agents(), Looked: len(a.sessions),
	}
	for _, res := range results {
		switch {
		case res.Pull != 0:
			r.Merged = append(r.Merged, res)
		case res.Issue <= int64(len(backlog)) && backlog[res.Issue-1].due():
			r.Missing = append(r.Missing, res.Issue)
		}
	}
	place := func(res Result) int { return slices.Index(a.merged, res.Pull) }
	slices.SortStableFunc(r.Merged, func(x, y Result) int { return place(x) - place(y) })
	return r, nil
}

// results reads every issue and the merged pull request for it.
func (w *World) results(ctx context.Context) ([]Result, error) {
	human := rest.API{URL: w.URL, Token: w.HumanToken}
	var issues []wireIssue
	if err := human.Get(ctx, "/repos/"+Repo+"/issues?state=all&type=issues&limit=50", &issues); err != nil {
		return nil, err
	}
	var pulls []wirePull
	if err := human.Get(ctx, "/repos/"+Repo+"/pulls?state=closed&limit=50", &pulls); err != nil {
		return nil, err
	}
	slices.SortFunc(issues, func(a, b wireIssue) int { return int(a.Number - b.Number) })
	results := make([]Result, len(issues))
	for i, is := range issues {
		results[i] = Result{Issue: is.Number, Title: is.Title, ClosedAt: is.Closed, Approvers: []string{}}
		for _, p := range pulls {
			// The branch is deleted after the merge, so find the issue by the pull request's text.
			if !p.Merged || !slices.Contains(forge.Closes("", p.Title, p.Body, Repo), forge.Ref{Repo: Repo, Number: is.Number}) {
				continue
			}
			if err := results[i].merged(ctx, &human, p); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (r *Result) merged(ctx context.Context, as *rest.API, p wirePull) error {
	var reviews []wireReview
	if err := as.Get(ctx, fmt.Sprintf("/repos/%s/pulls/%d/reviews?limit=50", Repo, p.Number), &reviews); err != nil {
		return err
	}
	r.Pull, r.Author = p.Number, p.User.Login
	for _, v := range reviews {
		switch {
		case v.State == "REQUEST_CHANGES":
			r.Rounds++
		case v.State == "APPROVED" && v.CommitID == p.Head.SHA && v.User.Login != p.User.Login:
			r.Approvers = append(r.Approvers, v.User.Login)
		}
	}
	return nil
}

// needs returns the dependencies of an issue of the backlog; none for an issue that was filed later.
func needs(issue int64) []int64 {
	if issue < 1 || issue > int64(len(backlog)) {
		return nil
	}
	var list []int64
	for _, n := range backlog[issue-1].needs {
		list = append(list, int64(n))
	}
	return list
}
