package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

var slingCommand = command{
	name: "sling", args: "REF | --title TITLE", maxArgs: 1,
	short: "hand an issue to the scheduler now, and hear who is on it",
	long: `
REF is 12, #12 or owner/name#12; with --title the issue is made first. It gets
the label backlog, and the scheduler decides on it at once, as a tick would.

The answer names the agent, or the first reason why no agent is on it yet and
the place in the queue; then the exit code is 3, and the issue is begun when the
reason is gone. --wait waits for that. An issue that can never begin as it is,
such as a closed one, is refused with 1.`,
	setup: func(flags *pflag.FlagSet) action {
		var s slingFlags
		s.at.flags(flags)
		flags.StringVar(&s.request.Title, "title", "", "make an issue with this title")
		flags.StringVar(&s.request.Body, "body", "", "its text")
		flags.StringVar(&s.request.Repo, "repo", "", "in this `REPO`, owner/name (default the only one)")
		flags.StringVar(&s.request.Role, "role", "", "for agents of this `ROLE`")
		flags.StringSliceVar(&s.request.Skills, "skill", nil, "label it skill/X; may be repeated")
		flags.StringSliceVar(&s.request.DependsOn, "depends-on", nil, "make it wait for this `REF`; may be repeated")
		flags.BoolVar(&s.wait, "wait", false, "wait until an agent is on it")
		s.jsonFlag(flags, "the answer")
		return s.run
	},
}

type slingFlags struct {
	query
	request control.SlingRequest
	wait    bool
}

func (s *slingFlags) run(ctx context.Context, c *cli, args []string) error {
	r := &s.request
	if len(args) == 1 {
		r.Ref = args[0]
		if err := checkRef(r.Ref); err != nil {
			return err
		}
	}
	made := r.Title != "" || r.Body != "" || r.Repo != "" || r.Role != "" || len(r.Skills)+len(r.DependsOn) > 0
	switch {
	case r.Ref != "" && made:
		return usagef("say an issue, or the title of one to be made: an issue that exists is not changed")
	case r.Ref == "" && r.Title == "":
		return usagef("say an issue, or --title of one to be made")
	}
	client, err := s.client(c)
	if err != nil {
		return err
	}
	answer, err := s.ask(ctx, client)
	if err != nil {
		return err
	}
	if s.wait && answer.Agent == "" {
		if answer, err = s.await(ctx, c, client, answer); err != nil {
			return err
		}
	}
	err = c.print(s.json, answer, func(v screen.View) string { return v.Sling(&answer) })
	if err == nil && answer.Agent == "" {
		err = errNotNow
	}
	return err
}

func (s *slingFlags) ask(ctx context.Context, client *control.Client) (answer control.SlingReport, err error) {
	err = client.Post(ctx, "/v1/sling", s.request, &answer)
	return answer, err
}

// await asks again whenever something happens, until an agent is on the issue. It prints each new reason to wait.
// Interrupted, it returns the last answer.
func (s *slingFlags) await(
	ctx context.Context, c *cli, client *control.Client, last control.SlingReport,
) (control.SlingReport, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := make(chan struct{}, 1)
	q := &statusQuery{client: client, c: c}
	go q.hear(ctx, watchPace, news)
	s.request = control.SlingRequest{Ref: forge.Ref{Repo: last.Repo, Number: last.Number}.String()}
	fmt.Fprintln(c.stderr, "disinto: "+screen.Clean(last.Line()))
	for {
		if err := watchPace.wait(ctx, news, func() error { return nil }); err != nil {
			return last, err
		}
		if ctx.Err() != nil {
			return last, nil
		}
		answer, err := s.ask(ctx, client)
		if err != nil && ctx.Err() != nil {
			return last, nil
		}
		if err != nil || answer.Agent != "" {
			answer.Filed = last.Filed
			return answer, err
		}
		if answer.Line() != last.Line() {
			fmt.Fprintln(c.stderr, "disinto: "+screen.Clean(answer.Line()))
		}
		last.Code, last.Why, last.Position = answer.Code, answer.Why, answer.Position
	}
}
