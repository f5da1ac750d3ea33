package forge

// Account is an account on the forge, as an administrator sees it.
type Account struct {
	Login string
	Admin bool // an administrator of the whole forge, not just of a repository
	// External means that another system, such as LDAP, stores the account's password: the forge cannot set one.
	External bool
	Disabled bool   // it is not activated, or may not sign in
	Email    string // as its administrator sees it
}

// Token is an access token of an account. The forge shows the token's text once, when the token is created.
type Token struct {
	ID        int64
	Name      string
	LastEight string `json:"token_last_eight"` // the end of its text
}

// Repository describes a repository as an agent or an administrator finds it before writing to it.
type Repository struct {
	Name    string // owner/name
	Branch  string // the default branch
	Empty   bool   // the repository has no commit
	Rebases bool   // a merge of a pull request rebases its commits
}

// File is a file of a repository, with its content.
type File struct {
	Path, Text string
	// SHA is git's object name of the content that a change replaces; empty for a new file.
	SHA string
}
