package forge

// Draft is an issue that is to be filed.
type Draft struct {
	Repo   string // owner/name
	Title  string
	Body   string
	Labels []string // of the issue from its first moment on; missing ones are created
}
