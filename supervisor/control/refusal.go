package control

import (
	"fmt"
	"net/http"
)

// Refusal is the error of a refused request, with the HTTP status for the reason.
type Refusal struct {
	Status int
	Words  string
}

// Error returns the words, one line.
func (r *Refusal) Error() string { return r.Words }

// Invalid refuses a request that is wrong in itself: 400.
func Invalid(format string, args ...any) error {
	return &Refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// NotFound refuses a request about something that does not exist: 404.
func NotFound(format string, args ...any) error {
	return &Refusal{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// Conflict refuses a request that the state of its subject does not allow: 409.
func Conflict(format string, args ...any) error {
	return &Refusal{http.StatusConflict, fmt.Sprintf(format, args...)}
}

// NotNow refuses a request that may succeed later: 503.
func NotNow(format string, args ...any) error {
	return &Refusal{http.StatusServiceUnavailable, fmt.Sprintf(format, args...)}
}
