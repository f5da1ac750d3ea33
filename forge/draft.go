package forge

// Draft is an issue that is yet to be filed.
type Draft struct {
	Repo   string // owner/name
	Title  string
	Body   string
	Labels []string // the issue carries them from the moment it exists; missing labels are created
}
