// Package localforge is an embedded forge: it speaks the part of Forgejo's REST API (v1) and of git's smart HTTP
// protocol that disinto relies on, over real bare git repositories. The demo and the tests run against it. It is a
// stand-in, not a product: no pages, no database, no SSH.
//
// # What it imitates
//
// Status codes, JSON shapes and side effects are those of Forgejo 10, including the surprising ones, because code that
// passes here must work there:
//
//   - lists hold 50 entries at most, are sorted newest first whatever "sort" says, and drop label names they do not
//     know, which widens the answer;
//   - HEAD is answered with 405; a time has a granularity of one second;
//   - assignees are replaced as a whole and the last write wins;
//   - a label, an assignee, a comment, a review and a dependency (on both ends) move updated_at; a commit status, and
//     the closing of a blocker, do not;
//   - an issue with open dependencies is not closed: 412 for a request, silence for a closing keyword at merge;
//   - only a dependency cycle of two is refused;
//   - a push makes reviews of changed content stale and restarts the conflict check, a moment later (see Options.Lag).
//
// # Known differences
//
//   - Everything but the git objects lives in memory and is lost with the process.
//   - No organisations, teams, forks, milestones, attachments, releases, reactions, sudo, search across repositories or
//     code comments' diffs. Fields of these are null or absent.
//   - Texts of refusals are often shorter and lack "errors". Commits lack the files that they change.
//   - Forgejo answers 500 to the second deletion of a branch. Here it is 404.
//   - A mention stays in the timeline after an edit removes it from the text.
//   - Web hooks may go to loopback. Forgejo refuses that by default.
//   - References are read from text with code taken out, not from parsed Markdown, and full URLs are no references.
//   - Refs are mirrored in memory: only this package may move them.
//
// # Concurrency
//
// One mutex guards the state and is never held while git runs or the network is used. Moves of a repository's refs
// (pushes, merges, branch calls) are serialised by a lock of that repository.
package localforge
