// Package forgejo reads and writes a Forgejo (7 or later) for the supervisor. It is the only importer of the Gitea SDK.
//
// # Usage
//
// A Client has one cache. Scan brings it up to date and returns it as forge.Facts: a cold scan reads everything that is
// open, later ones only what changed. Look reads one item afresh. The writes (Claim, Release, Label, Comment, Close,
// Merge) re-read what they are about, may be repeated safely, and never touch the cache: only a reading does.
//
// # What a scan costs
//
// An unchanged repository of any size costs at most two requests a scan: the list of what changed since the last scan,
// and one refresh of whatever was not looked at for longest (a base branch, a settled pull request). To these come one
// request for each open pull request whose CI or mergeability is not settled, at most every 30 s, and one for each
// blocker in a repository we do not scan, at most every 60 s. Once an hour everything is listed anew, because a deleted
// or transferred issue never shows in a list of changes.
//
// # Claims
//
// With Options.Claims a claim is a ref first, which the forge lets one of several supervisors make: one request more
// for a claim and for a release. What another one holds the facts show in HeldBy, and Claim and Release leave it alone
// with forge.ErrTaken. That costs a request or two each time an item with in-progress that is not ours changes, and one
// an hour.
//
// # Time
//
// Facts carry our own clock: when the request that brought them began. What the forge is asked for ("since") is in its
// clock, as it says in the Date header. Forgejo's times are whole seconds, so what was read in the very second of an
// item's last change is read once more.
//
// # Failure
//
// A scan that fails in part updates what it fully read, keeps the rest with its old time, and returns both the facts
// and an error. An item that cannot be read holds up only itself. While the forge is down Scan returns at once, with
// forge.ErrUnavailable, until the next moment it may try again; writes are always tried. No error contains a token.
//
// # Concurrency
//
// All methods may be called from several goroutines; scans run one at a time. At most four requests of a scan are under
// way at once.
package forgejo
