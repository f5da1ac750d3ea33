// Package forgejo reads and writes a Forgejo (7 or later) or Gitea (1.23 or later) for the supervisor. It is the only
// importer of the Gitea SDK.
//
// # Usage
//
// A Client has one cache. Scan brings it up to date and returns it as forge.Facts: a cold scan reads everything that is
// open, later ones only the changes. Look reads one item afresh. The writes (Claim, Release, Label, Comment, Close,
// Merge) read the item first, may be repeated, and do not change the cache: only readings do.
//
// # What a scan costs
//
// An unchanged repository of any size costs at most two requests per scan: the list of changes since the last one, and
// one refresh of the base branch or settled pull request that was read longest ago. Each open pull request whose CI or
// mergeability is not settled adds one request every 30 s, each blocker in a repository that is not scanned one every
// 60 s. Once an hour everything is listed, because no list of changes shows a deleted or transferred issue.
//
// # Claims
//
// With Options.Claims a claim begins with a ref, which the forge lets one of several supervisors create. That is one
// request more for a claim and for a release. The facts show the claims of other supervisors in HeldBy; Claim and
// Release answer forge.ErrTaken for them. That costs one or two requests each time an item with in-progress that is not
// ours changes, and one an hour.
//
// # Time
//
// Times of facts are by our clock: when the request for them began. "since" in requests is by the forge's clock, from
// its Date header. Forgejo's times are whole seconds, so an item that was read in the second of its last change is read
// once more.
//
// # Failure
//
// A scan that fails in part updates what it read completely, keeps the rest with its old time, and returns the facts
// with an error. An item that cannot be read holds up only itself. While the forge is down Scan waits between tries,
// and returns forge.ErrUnavailable at once in between; writes are always tried. No error contains a token.
//
// # Concurrency
//
// All methods may be called from several goroutines; scans run one at a time. A scan makes at most four requests at
// once.
package forgejo
