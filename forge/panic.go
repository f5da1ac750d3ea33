package forge

import "fmt"

// Panic is the error of a reading or writing that panicked: a mistake of ours, which an unforeseen answer of the forge
// showed. It costs what was being read, and the supervisor logs the stack.
type Panic struct {
	What  string // was being done
	Value any    // of the panic
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("internal error: %s panicked: %v", p.What, p.Value)
}

// Panics returns the panics in the tree of an error.
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
