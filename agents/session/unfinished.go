package session

import (
	"context"
	"os"
	"regexp"
)

// waits matches the last words of an agent that waits for something. A CLI that runs headless ends with the turn, and
// so does what it has started: nobody ever answers.
var waits = regexp.MustCompile(`(?i)\b(waiting (for|on|until)|` +
	`I('ll| will) (now )?(wait|be notified|check back|report back)|` +
	`(still )?(running|runs|continues) in the background|(wait|resume|continue|check again|report) ` +
	`(once|when|after|until) (it|they|the|all|both))\b`)

// hasAnswered reports whether the agent has written its answer or its verdict, which it does last.
func (r *run) hasAnswered() bool {
	for _, path := range []string{r.answerPath(), r.verdictPath()} {
		if info, err := os.Lstat(path); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// finish asks an agent once to go on that ended its turn to wait for something. Without that, half of its work would be
// handed in.
func (r *run) finish(ctx context.Context, said *report) error {
	if r.hasAnswered() || said.background == 0 && !waits.MatchString(said.Words) {
		return nil
	}
	_, err := r.followUp(ctx, "You have ended your turn to wait for something, and what you started in the background "+
		"has ended with it. Nobody tells you its result later. Go on now: run in the foreground what you still need, "+
		"finish the work, and write the file that was asked for last.")
	return err
}
