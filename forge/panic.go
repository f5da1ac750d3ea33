package forge

import "fmt"

// Panic is the error of a request whose code panicked: a bug in our code, triggered by an unexpected answer of the
// forge. Only that request fails, and the supervisor logs the stack.
type Panic struct {
	What  string // the operation that panicked
	Value any    // the value passed to panic
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("internal error: %s panicked: %v", p.What, p.Value)
}

// Panics returns the Panic errors in the tree of err.
func Panics(err error) (all []*Panic) {
	switch err := err.(type) {
	case *Panic:
		return []*Panic{err}
	case interface{ Unwrap() error }:
		return Panics(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			all = append(all, Panics(one)...)
		}
	}
	return all
}
