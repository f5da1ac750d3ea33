package forge

// The types in which the program of an agent reads and writes a forge, beside those that the scheduler needs too.

// Comment is a comment on an issue or pull request.
type Comment struct {
	ID     int64
	Author string // login
	Body   string
}

// LineComment is a comment of a review on one line of a file.
type LineComment struct {
	Author string `json:"-"` // the forge lets every account that may read add comments to a review of another one
	Path   string
	Line   int64 // number in the new version of the file, or in the old one for a removed line
	Body   string
}

// FullReview is a review with its comments on lines.
type FullReview struct {
	Review
	Lines []LineComment
}

// Check is the last report of a failed check of CI on a commit.
type Check struct {
	Name  string
	State string // failure or error
	Text  string // the check's own description of its result
	URL   string // a page for people; may be empty, and may name any host
}

// PullDraft is a pull request to be opened within one repository.
type PullDraft struct {
	Repo       string // owner/name
	Head, Base string // branches
	Title      string
	Body       string
}

// Edit is a change of one file of a repository: Text replaces the file or, with Append, is added to its end. A file
// that is not there is created.
type Edit struct {
	Path, Text string
	Append     bool
}
