package forge

// What the program of an agent reads and writes on a forge, beyond what a scheduler has to know.

// Comment is what an account wrote below an issue or pull request.
type Comment struct {
	Author string // login
	Body   string
}

// LineComment is a comment of a review on one line of a file.
type LineComment struct {
	Path string
	Line int64 // of the new version of the file; of a line that is gone, of the old one
	Body string
}

// FullReview is a review with its comments on lines.
type FullReview struct {
	Review
	Lines []LineComment
}

// Check is what one check of CI reported last on a commit.
type Check struct {
	Name  string
	State string // failure or error
	Text  string // its description, one line of the check's own
	URL   string // where people see more; may be empty, and may name any host
}

// PullDraft is a pull request to be opened within one repository.
type PullDraft struct {
	Repo       string // owner/name
	Head, Base string // branches
	Title      string
	Body       string
}

// Edit is a change of one file of a repository: Text replaces the file or, with Append, goes behind what it holds. A file
// that is not there is created.
type Edit struct {
	Path, Text string
	Append     bool
}
