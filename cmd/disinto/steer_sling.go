package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

func startCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "start REF|ROLE|SERVICE | --title TITLE", Aliases: []string{"sling"}, Args: cobra.MaximumNArgs(1),
		Short: "start an issue now, and report who takes it",
		Long: `
REF is 12, #12 or owner/name#12; --title creates a new issue. The issue gets the
label backlog, and the scheduler decides about it at once, as it would in its
next tick. The name of a role with on = "schedule" runs that role now. A service
starts with its current configuration, when the services that it needs are
ready; one that runs is left alone.

start prints the agent's name. If no agent can start now, it prints the first
reason and the issue's place in the queue, and exits 3; the issue starts when
the reason is gone, and --wait waits for that. An issue that cannot start at
all, such as a closed one, is refused with exit code 1.`,
		Example: `
  disinto start 12 --wait
  disinto start gardener
  disinto start --title "Ring the bell" --skill go --depends-on 12`,
	}
	flags := cmd.Flags()
	var s slingFlags
	flags.StringVar(&s.request.Title, "title", "", "create an issue with this `TITLE`")
	flags.StringVar(&s.request.Body, "body", "", "the `TEXT` of the new issue")
	flags.StringVar(&s.request.Repo, "repo", "", "in `REPO`, owner/name (default the only one)")
	flags.StringVar(&s.request.Role, "role", "", "only agents of this `ROLE` may take it")
	flags.IntVar(&s.request.Priority, "priority", 0, "add the label priority/`N`: 1, the most urgent, to 10")
	flags.StringSliceVar(&s.request.Skills, "skill", nil, "add the label skill/`X`; may be repeated")
	flags.StringSliceVar(&s.request.DependsOn, "depends-on", nil, "make it wait for this `REF`; may be repeated")
	flags.BoolVar(&s.wait, "wait", false, "wait until an agent starts")
	s.at.flags(flags)
	s.jsonFlag(flags, "the answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && checkRef(args[0]) != nil && cmd.CalledAs() == "start" && !flags.Changed("repo") {
			err := s.postAndPrint(cmd.Context(), c, "/v1/start", control.ServiceRequest{Service: args[0]})
			if no := (*control.Refusal)(nil); !errors.As(err, &no) || no.Status != http.StatusNotFound {
				return err
			}
			err = s.run(cmd.Context(), c, args)
			if no := (*control.Refusal)(nil); errors.As(err, &no) && no.Status == http.StatusBadRequest {
				return fmt.Errorf("cannot start %s: it is no issue, such as 12, and no service or scheduled role has that name",
					args[0])
			}
			return err
		}
		return s.run(cmd.Context(), c, args)
	}
	return cmd
}

type slingFlags struct {
	query
	request control.SlingRequest
	wait    bool
}

func (s *slingFlags) run(ctx context.Context, c *cli, args []string) error {
	r := &s.request
	role := false
	if len(args) == 1 {
		r.Ref = args[0]
		err := checkRef(r.Ref)
		if role = err != nil && !strings.ContainsAny(r.Ref, "/#:"); err != nil && !role {
			return err
		}
	}
	made := r.Title != "" || r.Body != "" || r.Repo != "" && !role || r.Role != "" || len(r.Skills)+len(r.DependsOn) > 0
	switch {
	case r.Ref != "" && made:
		return usagef("give REF or --title, not both: an existing issue is not edited")
	case r.Ref == "" && r.Title == "":
		return usagef("give REF, or --title to create an issue")
	}
	client, err := s.client(c)
	if err != nil {
		return err
	}
	answer, err := s.post(ctx, client)
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

func (s *slingFlags) post(ctx context.Context, client *control.Client) (answer control.SlingReport, err error) {
	err = client.Post(ctx, "/v1/sling", s.request, &answer)
	return answer, err
}

// await sends the request again after each event, until an agent works on the issue. It prints each new reason to wait.
// When interrupted, it returns the last answer.
func (s *slingFlags) await(
	ctx context.Context, c *cli, client *control.Client, last control.SlingReport,
) (control.SlingReport, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := make(chan struct{}, 1)
	q := &statusQuery{client: client, c: c}
	go q.followEvents(ctx, watchPace, news)
	s.request = control.SlingRequest{Ref: forge.Ref{Repo: last.Repo, Number: last.Number}.String()}
	if last.Role != "" {
		s.request = control.SlingRequest{Ref: last.Role, Repo: last.Repo}
	}
	fmt.Fprintln(c.stderr, "disinto: "+screen.Clean(last.Line()))
	for {
		watchPace.wait(ctx, news)
		if ctx.Err() != nil {
			return last, nil
		}
		answer, err := s.post(ctx, client)
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
