package agents

import "slices"

// Backend is the kind of inference behind a thread.
type Backend string

// The backends.
const (
	// API is any vendor's API. factory.toml also calls it "api"; files and JSON documents keep the older name.
	API Backend = "anthropic"
	// Local is a server of the operator, such as llama-server.
	Local Backend = "local"
)

// backendKind is a row of backends.
type backendKind struct {
	backend Backend
	shares  bool
	paid    bool
	server  bool
	weak    bool
}

// backends has every difference between the kinds. The rows name no columns: a kind without one of the answers does
// not compile. The code asks for an answer, and never for a kind.
var backends = []backendKind{
	{API, true, true, false, false},
	{Local, false, false, true, true},
}

// Backends returns all kinds.
func Backends() (all []Backend) {
	for _, k := range backends {
		all = append(all, k.backend)
	}
	return all
}

// kind returns the row of a kind. An unknown one is treated as an API.
func (b Backend) kind() backendKind {
	i := slices.IndexFunc(backends, func(k backendKind) bool { return k.backend == b })
	return backends[max(i, 0)]
}

// Shares reports whether agents share the slots of a thread unless its table says otherwise, because no slot keeps a
// conversation.
func (b Backend) Shares() bool { return b.kind().shares }

// Paid reports whether its use costs money. Programs get the API keys of models on such a backend only.
func (b Backend) Paid() bool { return b.kind().paid }

// Server reports whether it is a server of the operator, whose load and caches are read.
func (b Backend) Server() bool { return b.kind().server }

// Weak reports whether its work needs a reviewer on a backend that is not weak.
func (b Backend) Weak() bool { return b.kind().weak }
