package supervisor

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/threads"
)

// comment is what we write to people. One of the same key is written once.
type comment struct{ key, body string }

// gaveUpComment tells why nobody works on an item any more. The key holds the time of the last failure: after a retry
// that comes to nothing too, people are told again.
func gaveUpComment(c *chore) comment {
	it := &c.mark.Item
	var b strings.Builder
	fmt.Fprintf(&b, "Agents gave up on the %s after %d attempts.", task(it), c.mark.Reason.Count)
	if c.failure.reason != "" {
		b.WriteString(" The last one ended with:\n\n" + fence(c.failure.reason))
	}
	if c.failure.tail != "" {
		b.WriteString("\n\nThe last lines of its output:\n\n" + fence(c.failure.tail))
	}
	fmt.Fprintf(&b, "\n\nTo have it tried again, remove the label `blocked`, or say `disinto retry %d`.", it.Chain.Number)
	return comment{fmt.Sprintf("blocked-%d-%s-%d", it.Chain.Number, it.Kind, c.failure.at.Unix()), b.String()}
}

// needsHumanComment tells why a person is asked.
func needsHumanComment(c *chore) comment {
	why := c.mark.Reason
	if why.Code == threads.Refused {
		return comment{
			fmt.Sprintf("refused-%d-%d", c.ref.Number, c.refused.Unix()),
			"An agent refused this:\n\n" + fence(why.Note) +
				"\n\nTo have it tried again, change what it says and remove the label `needs-human`.",
		}
	}
	return comment{
		fmt.Sprintf("rounds-%d-%.12s", c.ref.Number, c.mark.Item.HeadSHA),
		fmt.Sprintf("This goes in circles: %s. A person should look at it.\n\nTo have agents go on, remove the label `needs-human`.",
			why.Text()),
	}
}

// fence shows what a program printed as data: no mention, reference, keyword or marker in it means anything. The fence is
// longer than any in the text, and the opening of an HTML comment is broken, because that is how we know our own comments.
func fence(text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "<!--", "<! --")
	marks := "```"
	for strings.Contains(text, marks) {
		marks += "`"
	}
	return marks + "text\n" + text + "\n" + marks
}
