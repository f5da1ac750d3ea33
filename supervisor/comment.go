package supervisor

import (
	"cmp"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// gaveUpComment says why no agent works on an item any more. Its key holds the time of the last failure, so that
// people get another comment if a retry fails too.
func gaveUpComment(c *chore) comment {
	it := &c.mark.Item
	var b strings.Builder
	fmt.Fprintf(&b, "Agents gave up on the %s after %d attempts.", task(it), c.mark.Reason.Count)
	if c.failure.Reason != "" {
		b.WriteString(" The last one ended with:\n\n" + fence(c.failure.Reason))
	}
	if c.failure.Tail != "" {
		b.WriteString("\n\nThe last lines of its output:\n\n" + fence(c.failure.Tail))
	}
	if c.failure.Allow != "" {
		b.WriteString("\n\nThis line of factory.toml would allow the hosts:\n\n" + fence(c.failure.Allow))
	}
	b.WriteString("\n\nTo have it tried again, remove the label `blocked`, or comment `/disinto retry`.")
	return comment{fmt.Sprintf("blocked-%d-%s-%d", it.Chain.Number, it.Kind, c.failure.Failed.Unix()), b.String()}
}

// needsHumanComment says why a person must look at an item.
func needsHumanComment(c *chore) comment {
	why := c.mark.Reason
	if why.Code == threads.Refused {
		return comment{
			fmt.Sprintf("refused-%d-%d", c.ref.Number, c.refused.Unix()),
			"An agent refused this:\n\n" + fence(why.Note) +
				"\n\nTo have it tried again, change what it says and remove the label `needs-human`.",
		}
	}
	if why.Code == threads.PushRefused {
		return comment{
			fmt.Sprintf("push-%d-%d", c.ref.Number, c.refused.Unix()),
			"The work is done, and the forge does not take it:\n\n" + fence(why.Note) +
				"\n\nIts commits are kept. Remove what the forge objects to, then comment `/disinto retry`, or remove the label " +
				"`needs-human`: they are pushed again.",
		}
	}
	if why.Code == threads.SplitRefused {
		return splitRefusedComment(c)
	}
	if why.Code == threads.OverLimit {
		return overLimitComment(c)
	}
	if why.Code == threads.Duplicate {
		return comment{
			"duplicate-" + refKey(why.Refs),
			"An agent opened this, and " + mention(c.ref.Repo, why.Refs) + " of an agent has the same title. So no agent " +
				"begins it.\n\nPlease close this. To have it done as well, remove the label `needs-human`, or comment " +
				"`/disinto retry`.",
		}
	}
	if why.Code == threads.BlockerCancelled {
		return comment{
			"cancelled-blocker-" + refKey(why.Refs),
			fmt.Sprintf("This depends on %s, which was cancelled, so it would wait for ever.\n\n"+
				"Take the dependency off, or have the other done after all with `disinto retry %s`; then remove the label "+
				"`needs-human`.",
				mention(c.ref.Repo, why.Refs), why.Refs[0]),
		}
	}
	return comment{
		fmt.Sprintf("rounds-%d-%s", c.ref.Number, cmp.Or(fmt.Sprintf("%.12s", c.mark.Item.HeadSHA), refKey(why.Refs))),
		fmt.Sprintf("This goes in circles: %s. A person should look at it.\n\n"+
			"To have agents go on, comment `/disinto retry`. Removing the label `needs-human` is not enough, because agents "+
			"can do that, too.", why.Text()),
	}
}

// overLimitComment names the figures and the key to raise. The reason is our own text: it contains names of the
// configuration. The comment's key holds the time of the hand-over, because each hand-over is news.
func overLimitComment(c *chore) comment {
	return comment{
		fmt.Sprintf("limit-%d-%d-%d", c.ref.Number, c.refused.Unix(), c.handed),
		fmt.Sprintf("This costs more than it may: %s. Its work so far is kept.\n\n"+
			"To let agents use as much again, remove the label `needs-human`, or comment `/disinto retry`. "+
			"To let them use more, raise that limit in factory.toml first.", c.mark.Reason.Text()),
	}
}

// splitRefusedComment says why no agent splits an issue.
func splitRefusedComment(c *chore) comment {
	why := c.mark.Reason
	if len(why.Refs) > 0 {
		return comment{
			"split-twice-" + refKey(why.Refs),
			"This is part of the batch " + mention(c.ref.Repo, why.Refs) + ", and an issue of a batch is not split again.\n\n" +
				"To have it done as it is, remove the label `split-first`, then comment `/disinto retry`.",
		}
	}
	return comment{
		fmt.Sprintf("split-%d-%d", c.ref.Number, c.refused.Unix()),
		"An agent planned how to split this, and the plan cannot be used:\n\n" + fence(why.Note) +
			"\n\nTo have it split anew, say in a comment what to do differently, then comment `/disinto retry`.",
	}
}

// toldComment reports a problem that only people can solve, and that blocks nothing else.
func toldComment(c *chore) comment {
	if why := c.mark.Reason; why.Code == threads.Superseded {
		return comment{
			"superseded-" + refKey(why.Refs),
			mention(c.ref.Repo, why.Refs) + " is done without this pull request: another one was merged, or a person closed " +
				"it. So no agent continues here, and this will not be merged.\n\n" +
				"Please close it. To have it all the same, open the issue again, or merge by hand.",
		}
	}
	switch c.mark.Reason.Code {
	case threads.BaseChanged:
		return strayComment(c)
	case threads.TooBigToReview:
		return unshownComment(c)
	case threads.Unasked, threads.NotLast:
		return unworkedComment(c)
	}
	return circleComment(c)
}

// strayComment says that a pull request targets a branch into which nothing is merged. The branch name is text of the
// pull request's author.
func strayComment(c *chore) comment {
	return comment{
		"base-changed",
		"The target branch of this is\n\n" + fence(c.mark.Reason.Note) +
			"\n\nwhich is neither the default branch nor one of `bases` in `[forge]`. So no agent continues here, and this " +
			"will not be merged.\n\nPlease edit the target branch; an approved head is then reviewed again. Or close this, " +
			"or merge by hand.",
	}
}

// unshownComment asks for a person's approval of a head. What was not shown has names that a branch's author chose.
func unshownComment(c *chore) comment {
	return comment{
		fmt.Sprintf("too-big-%.12s", c.mark.Item.HeadSHA),
		"An agent reviewed this and asked for no change, but was not shown all of it:\n\n" + fence(c.mark.Reason.Note) +
			"\n\nSo it is merged only after a person has looked at that, and approved it. A new push is reviewed again.",
	}
}

// unworkedComment says that no agent works on a pull request of an agent, and what a person can do.
func unworkedComment(c *chore) comment {
	why := c.mark.Reason
	if why.Code == threads.NotLast {
		return comment{
			"not-last",
			mention(c.ref.Repo, why.Refs) + " was handed in later for the same issue, and agents work on the last one " +
				"only.\n\nTo have this one reviewed, close the other, or label this one `review`. Otherwise, please close this.",
		}
	}
	return comment{
		"unasked",
		"An agent opened this outside a session on an issue that this closes, so no agent works on it.\n\n" +
			"To have it reviewed, label it `review`, or review it. If it belongs to an issue on which that agent worked, name " +
			"the issue in the text, as in `Fixes #12`.",
	}
}

// landedComment says that a pull request is merged. Every commit of it passed the review, so its base is one of ours.
func landedComment(base string) comment {
	return comment{
		"landed",
		"Every commit of this is in `" + base + "`, so it is merged, although the forge did not note that: it may have " +
			"ended in the middle of the merge. That is why this is closed.",
	}
}

// circleComment says that issues wait for each other. It is written on the first of them.
func circleComment(c *chore) comment {
	why := c.mark.Reason
	if why.Code == threads.BlocksItself {
		return comment{"blocks-itself", "This depends on itself, so no agent will ever begin. Please edit its dependencies."}
	}
	return comment{
		"circle-" + refKey(why.Refs),
		"These issues wait for each other, so no agent will ever begin one: " +
			strings.Join(mentions(c.ref.Repo, why.Refs), " → ") + ".\n\nPlease take one of the dependencies off.",
	}
}

// greeting mentions a person, whom the forge then notifies; it is empty if login is not a valid account name.
func greeting(login string) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if login == "" || strings.ContainsFunc(login, odd) {
		return ""
	}
	return "@" + login + ", "
}

// mention lists issues in the forge's syntax for links.
func mention(home string, refs []forge.Ref) string { return strings.Join(mentions(home, refs), ", ") }

func mentions(home string, refs []forge.Ref) []string {
	words := make([]string, len(refs))
	for i, r := range refs {
		words[i] = nameIn(home, r)
	}
	return words
}

// nameIn returns a reference in the forge's syntax for links, in an issue of the repository home.
func nameIn(home string, r forge.Ref) string {
	if r.Repo == home {
		return r.Short()
	}
	return r.String()
}

// refKey encodes a list of issues for the key of a comment.
func refKey(refs []forge.Ref) string {
	words := make([]string, len(refs))
	for i, r := range refs {
		words[i] = strings.ReplaceAll(strings.ReplaceAll(r.String(), "#", "/"), "--", "-")
	}
	return strings.Join(words, ".")
}

// fence quotes a program's output, so that no mention, reference, keyword or marker in it has an effect. The fence is
// longer than any in the text. The opening of an HTML comment is broken up, because our own comments are recognised by
// one.
func fence(text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "<!--", "<! --")
	marks := "```"
	for strings.Contains(text, marks) {
		marks += "`"
	}
	return marks + "text\n" + text + "\n" + marks
}

// askPerson writes the comment before the label, because the label stops the scheduler from asking for both again.
func (k *clerk) askPerson(c *chore, label string, words comment) error {
	c.said = cmp.Or(c.said, "labelled "+string(c.action)+": "+c.mark.Reason.Text())
	if err := k.comment(c.ref, words); err != nil {
		return err
	}
	return k.label(c.ref, []string{label}, nil)
}
