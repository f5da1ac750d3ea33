// Package localforge is an embedded forge. It implements the part of Forgejo's REST API (v1), of git's smart HTTP
// protocol and of Git LFS that disinto relies on, with real bare git repositories. The demo and the tests run against
// it. It is a stand-in and no product: it has no pages, no database and no SSH.
//
// # What it imitates
//
// Status codes, JSON shapes and side effects are those of Forgejo 10, including the surprising ones, because code that
// works here must work there:
//
//   - A page has at most 50 entries. Lists of issues are sorted newest first whatever "sort" is, and a filter ignores
//     unknown label names, which widens the result.
//   - HEAD is answered with 405. Times are whole seconds.
//   - Assignees are replaced as a whole, and the last write wins.
//   - A label, an assignee, a comment, a review and a dependency (at both ends) change updated_at. A commit status, a
//     reaction, and the closing of a blocker do not.
//   - An issue with open dependencies cannot be closed: a request gets 412, a closing keyword at a merge is ignored.
//   - Only a direct cycle of two dependencies is rejected.
//   - A push makes reviews of changed content stale and restarts the conflict check, after a delay (see Options.Lag).
//
// # Known differences
//
//   - Everything except git objects is in memory and ends with the process.
//   - There are no organisations, teams, forks, milestones, attachments, releases, sudo, search across repositories or
//     diffs of code comments. Only comments have reactions. Answers have the fields that disinto or a test reads, and
//     lists no Link header.
//   - Error texts are often shorter and lack "errors".
//   - Forgejo answers 500 to the second deletion of a branch; localforge answers 404.
//   - A mention stays in the timeline after an edit removes it from the text.
//   - Web hooks can call loopback addresses. Forgejo forbids that by default.
//   - References are read from text without its code, not from parsed Markdown, and full URLs are not references.
//   - Git LFS has no locks, and each repository has its own objects.
//   - Refs are mirrored in memory: only this package can move them.
//
// # Concurrency
//
// One mutex guards the state; it is never held while git runs or during network I/O. A lock per repository serialises
// moves of its refs (pushes, merges, branch requests).
package localforge
