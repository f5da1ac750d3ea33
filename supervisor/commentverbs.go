package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
)

// verb is a command that people may write in a comment.
type verb struct {
	args, most int // the least and the most arguments
	// lifts is true if the command lifts what stops agents, which they cannot do with their own write access: forged, it
	// would spend without a limit. Unless a web hook proves who wrote it, its author must confirm it.
	lifts bool
	do    func(*conversation, context.Context, forge.CommandComment) (answer string, err error)
}

// verbs has the commands in comments, each the same as in the control API. To add one, write its row.
var verbs = map[string]verb{
	"retry":    {lifts: true, do: onItem((*commands).retried)},
	"cancel":   {do: onItem((*commands).cancel)},
	"release":  {do: onItem((*commands).release)},
	"why":      {do: (*conversation).why},
	"start":    {do: (*conversation).sling},
	"sling":    {do: (*conversation).sling}, // the same
	"assign":   {args: 1, most: 1, do: (*conversation).assign},
	forge.Tell: {do: (*conversation).tell},
	"pause":    {most: 1, do: (*conversation).pause},
}

// verbHelp answers an unknown command.
const verbHelp = "use /disinto retry, cancel, release, why, start, assign AGENT, pause [THREAD|AGENT|REPO], " +
	"or tell TEXT"

// execute carries out a command and returns the answer, which has at most a few lines.
func (cv *conversation) execute(ctx context.Context, said forge.CommandComment) (answer string) {
	v, known := verbs[said.Command.Verb]
	n := len(said.Command.Args)
	switch {
	case !known:
		answer = verbHelp + threads.Suggest(said.Command.Verb, slices.Collect(maps.Keys(verbs)))
	case n < v.args, n > v.most:
		answer = verbHelp
	default:
		var err error
		if answer, err = v.do(cv, ctx, said); err != nil {
			answer = text(err)
		}
	}
	if said.Command.More {
		answer += "\nonly the first command of a comment is carried out: write another comment"
	}
	return answer
}

// onItem turns a command on an issue or pull request into a verb.
func onItem(
	do func(*commands, context.Context, control.ItemRequest, *control.Report) error,
) func(*conversation, context.Context, forge.CommandComment) (string, error) {
	return func(cv *conversation, ctx context.Context, said forge.CommandComment) (string, error) {
		var report control.Report
		err := do(cv.commands, ctx, control.ItemRequest{Ref: said.Ref.String()}, &report)
		return report.Line(), err
	}
}

// why answers with the verdict of why, and the remedy.
func (cv *conversation) why(ctx context.Context, said forge.CommandComment) (string, error) {
	ex, err := cv.history.whyItem(ctx, said.Ref.String(), said.Ref)
	if err != nil {
		return "", err
	}
	answer := said.Ref.String() + ": " + ex.Verdict
	if ex.Mend != "" {
		answer += "\n" + ex.Mend
	}
	return answer, nil
}

func (cv *conversation) sling(ctx context.Context, said forge.CommandComment) (string, error) {
	var report control.SlingReport
	err := cv.commands.sling(ctx, control.SlingRequest{Ref: said.Ref.String()}, &report)
	return report.Line(), err
}

// pause carries out a pause. The comment's author must have write access to the repository that it names, else to all
// of the factory, because the pause affects each of them.
func (cv *conversation) pause(ctx context.Context, said forge.CommandComment) (string, error) {
	name, config := strings.Join(said.Command.Args, ""), cv.state.config()
	repos := config.Forge.Repos
	if repo, err := config.Repo(name); err == nil {
		repos = []string{repo}
	}
	for _, repo := range repos {
		may, err := fetch(cv.core, func(ctx context.Context, f Forge) (bool, error) {
			return f.MayWrite(ctx, repo, said.Author)
		})
		if err == nil && !may {
			err = fmt.Errorf("%w: %s may not write to %s", forge.ErrForbidden, said.Author, repo)
		}
		if err != nil {
			return "", fmt.Errorf("cannot pause what also works in other repositories: %w", err)
		}
	}
	var report control.Report
	err := cv.pausing.pause(ctx, control.PauseRequest{Name: name, By: said.Author}, &report)
	return report.Line() + "; until disinto resume", err
}

// assign assigns a waiting issue to one agent, and slings it. Unlike a claim, the assignment starts nothing: it is a
// pin, and the scheduler decides when the agent may start.
func (cv *conversation) assign(ctx context.Context, said forge.CommandComment) (string, error) {
	name := said.Command.Args[0]
	agent := cv.state.config().Agent(name)
	if agent == nil {
		return "", control.NotFound("cannot assign %s: this factory has no agent of that name", said.Ref)
	}
	t, err := cv.find("assign", "", said.Ref.String())
	if err != nil {
		return "", err
	}
	if why := cv.unassignable(t); why != "" {
		return "", control.Conflict("cannot assign %s: %s", said.Ref, why)
	}
	if !slices.Equal(t.assignees, []string{agent.Login}) {
		write := cv.state.beginWrite(t.Ref)
		err = cv.clerk.reassign(t.Ref, strings.Join(t.assignees, ""), agent.Login, nil, journal.NewRun(cv.Instance()))
		cv.kicks.all(write.end())
	}
	if err != nil {
		return "", notDone("assign", t.Ref, err)
	}
	answer, err := cv.sling(ctx, said)
	return "assigned to " + agent.Name + "\n" + answer, err
}

// unassignable returns why an issue cannot be assigned to another agent; "" if it can.
func (cv *conversation) unassignable(t *target) string {
	if why := cv.commands.unslingable(t, t.String()); why != "" {
		return why
	}
	x := cv.state.sessionOn(t.Ref)
	switch {
	case x != nil:
		return x.Agent + " works on it: release it first"
	case t.heldBy != "" || t.has(forge.LabelInProgress):
		return "it is in-progress: release it first"
	case len(t.assignees) > 1:
		return "it has several assignees"
	}
	return ""
}
