package forge

// Account is an account on the forge, as an administrator sees it.
type Account struct {
	Login string
	Admin bool // of the whole forge
	// External means that another system keeps its password, such as LDAP: the forge cannot set one.
	External bool
}

// Token is an access token of an account. The forge shows its text once, when it is made.
type Token struct {
	ID   int64
	Name string
}

// Repository is a repository as an agent or an administrator finds it before writing to it.
type Repository struct {
	Name    string // owner/name
	Branch  string // the default one
	Empty   bool   // it has no commit
	Private bool
}

// File is a file of a repository with its content.
type File struct {
	Path, Text string
	// SHA is git's name of the content that a change replaces; empty for a new file.
	SHA string
}
