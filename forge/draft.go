package forge

import "time"

// Draft is an issue that is yet to be filed.
type Draft struct {
	Repo   string // owner/name
	Title  string
	Body   string
	Labels []string // the issue carries them from the moment it exists; missing labels are created
	// Key, of letters, digits and ._:/-, makes the issue be filed once: a draft with the key of an issue that the same
	// account filed after Since, closed or not, is that issue. Empty files another issue each time.
	Key   string
	Since time.Time
}
