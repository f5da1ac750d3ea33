// Package localforge is an embedded forge: it speaks the part of Forgejo's REST API (v1) and of git's smart HTTP
// protocol that disinto relies on, over real bare git repositories. The demo and the tests run against it. It is a
// stand-in, not a product: no pages, no database, no SSH.
//
// # What it imitates
//
// Status codes, JSON shapes and side effects are those of Forgejo 10, the odd ones included, because code that passes
// here must work there:
//
//   - lists hold 50 entries at most, are sorted newest first whatever "sort" says, and drop label names they do not
//     know, which widens the answer;
//   - HEAD is answered with 405; a time has a granularity of one second;
//   - assignees are replaced as a whole and the last write wins;
//   - a label, an assignee, a comment, a review and a dependency (on both ends) move updated_at; a commit status, and
//     the closing of a blocker, do not;
//   - an issue with open dependencies is not closed: 412 for a request, silence for a closing keyword at merge;
//   - only a dependency cycle of two is refused;
//   - a push makes the reviews of what it changed stale and the conflict check start over, a moment later (see
//     Options.Lag).
//
// # Where it knowingly differs
//
//   - Everything but the git objects lives in memory and is lost with the process.
//   - No organisations, teams, forks, milestones, attachments, releases, reactions, sudo, search across repositories or
//     code comments' diffs. Fields of these are null or absent.
//   - Texts of refusals are often shorter, and what they list under "errors" is left out. Commits come without the
//     files they touch.
//   - Forgejo answers 500 to the second deletion of a branch. Here it is 404.
//   - A mention stays in the timeline when the text loses it.
//   - Web hooks may go to loopback. Forgejo refuses that by default.
//   - References are read from text with code taken out, not from parsed Markdown, and full URLs are no references.
//   - Refs are mirrored in memory: nothing but this package may move them.
//
// # Concurrency
//
// One mutex guards the state and is never held while git runs or the network is used. Whatever moves the refs of one
// repository (a push, a merge, a branch call) is serialised by a lock of that repository.
package localforge
