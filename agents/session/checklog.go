package session

import (
	"context"
	"regexp"
	"strings"
)

// jobPage ends the page of a job of Forgejo Actions, which a commit status links to. Everything before it is left out: a
// status can be set by whoever may push, and must not make us ask another server with our token.
var jobPage = regexp.MustCompile(`/actions/runs/[0-9]+/jobs/[0-9]+(/attempt/[0-9]+)?$`)

// maxLog bounds in bytes the end of a log that goes into a prompt: about 100 lines.
const maxLog = 8 << 10

// checkLog is the end of what a failing check printed, if the forge's own CI ran it and lets us read it; else it is empty, and
// the agent has the link. Forgejo has no API for logs: they are below the job's page, and of a private repository its
// pages are shown to nobody who brings only a token.
func (s *session) checkLog(ctx context.Context, target string) quoted {
	page := jobPage.FindString(target)
	if page == "" || !strings.HasSuffix(target, "/"+s.Repo+page) {
		return ""
	}
	text, err := s.api.Text(ctx, "/"+s.Repo+page+"/logs")
	if err != nil {
		s.logf("cannot read the log of a check: %v", err)
		return ""
	}
	return quoted(cutFront(text, maxLog))
}

// cutFront keeps the end of a text, from the beginning of a line on.
func cutFront(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		text = rest
	}
	return "[cut here, it began before]\n" + strings.ToValidUTF8(text, "")
}
