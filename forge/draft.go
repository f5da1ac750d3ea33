package forge

// Draft is an issue to be filed.
type Draft struct {
	Repo   string // owner/name
	Title  string
	Body   string
	Labels []string // that the issue has from its first moment on; the repository may lack them
}
