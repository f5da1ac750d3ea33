package forge

// This file holds the types with which an agent's program reads and writes a forge, except those that the scheduler
// uses too.

// Comment is a comment on an issue or pull request.
type Comment struct {
	ID     int64
	Author string // login
	Body   string
}

// LineComment is a comment of a review on one line of a file.
type LineComment struct {
	Author string `json:"-"` // every account with read access can add comments to another account's review
	Path   string
	Line   int64 // line number in the new version of the file, or in the old version for a removed line
	Body   string
}

// FullReview is a review with its line comments.
type FullReview struct {
	Review
	Lines []LineComment
}

// Check is the latest report of a CI check that failed on a commit.
type Check struct {
	Name  string
	State string // failure or error
	Text  string // the check's own description of the result
	URL   string // a page for people; can be empty, and can point to any host
}

// PullDraft is a pull request to be opened from one branch of a repository to another.
type PullDraft struct {
	Repo       string // owner/name
	Head, Base string // branches
	Title      string
	Body       string
}

// Edit is a change of one file of a repository. Text replaces the file's content or, with Append, is added at its end.
// A missing file is created.
type Edit struct {
	Path, Text string
	Append     bool
}

// LargeFile is a file whose content Git LFS stores beside the repository.
type LargeFile struct {
	ID   string // the SHA-256 of the content, in hexadecimal
	Size int64  // in bytes
}
