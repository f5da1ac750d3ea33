// Package forgejo reads and writes a Forgejo (7 or later) or Gitea (1.23 or later) for the supervisor. It is the only
// importer of the Gitea SDK.
//
// # Requests
//
// The SDK's client makes each request that it has a method for; own.go has the others, with the reason for each. Both
// use the same [http.Client], whose transport bounds an answer before the SDK reads it, ends a request at its deadline,
// and follows at most three redirects of the same request on the same host.
//
// # Usage
//
// A Client has one cache. Scan updates it and returns it as forge.Facts: the first scan reads all open items, later
// scans only the changes. FetchItem re-reads one item. The writes (Claim, Release, Label, Comment, Close, Merge) read
// the item first, can be repeated, and do not change the cache: only readings change it.
//
// # What a scan costs
//
// An unchanged repository of any size costs at most two requests per scan: the list of changes since the last scan, and
// one refresh of the base branch or settled pull request that was read longest ago. Each open pull request with
// unsettled CI or mergeability adds one request every 30 s. Each blocker in a repository that is not scanned adds one
// every 60 s. The settings add one every five minutes. Once an hour all open items are listed, because no list of
// changes shows a deleted or transferred issue.
//
// # Claims
//
// With Options.Claims a claim begins with a ref, which the forge lets only one of several supervisors create. The ref
// costs one more request per claim and per release. The facts show the claims of other supervisors in HeldBy; Claim and
// Release return forge.ErrTaken for those items. HeldBy costs one or two requests each time an item with in-progress
// that is not ours changes, and one an hour.
//
// # Time
//
// AsOf times are by our clock: when the request for the fact began. The parameter since in requests is by the forge's
// clock, taken from the Date header. Forgejo's times are whole seconds, so an item that was read in the second of its
// last change is read once more.
//
// # Failure
//
// A scan that fails in part updates what it read completely, leaves everything else with its old time, and returns the
// facts with an error. An item that cannot be read delays only itself. While the forge is down, Scan pauses between
// tries, and until the next try it returns forge.ErrUnavailable at once; writes are always tried. No error contains a
// token.
//
// # Concurrency
//
// All methods are safe for concurrent use; scans run one at a time. A scan makes at most four concurrent requests.
package forgejo
