package forge

// Account is somebody's account on the forge, as an administrator sees it.
type Account struct {
	Login string
	Admin bool // of the whole forge
	// External means that its password is kept elsewhere, as with LDAP: the forge cannot set one.
	External bool
}

// Token is an access token of an account. The forge tells its text once, when it is made.
type Token struct {
	ID   int64
	Name string
}

// Repository is what is worth knowing about a repository before something is put into it.
type Repository struct {
	Name    string // owner/name
	Branch  string // the default one
	Empty   bool   // it has no commit
	Private bool
}

// File is a file of a repository, with what is in it.
type File struct {
	Path, Text string
	// SHA names the content that a change replaces; empty for a file that is not there yet.
	SHA string
}
