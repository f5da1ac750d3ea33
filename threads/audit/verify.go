package audit

import (
	"fmt"
	"time"
)

// Journal has the hashes that a journal has of receipts.
type Journal struct {
	Newest Head              // of the sessions whose end it has
	Hashes map[string]string // of the sessions that it remembers, by run
}

// Report says whether a chain of receipts is whole.
type Report struct {
	Version  int       `json:"version"`
	OK       bool      `json:"ok"`
	Receipts int64     `json:"receipts"`
	First    int64     `json:"first,omitempty"`
	From     time.Time `json:"from,omitzero"` // the end of the first session
	To       time.Time `json:"to,omitzero"`   // and of the last one
	Head     Head      `json:"head"`          // the newest receipt that follows from the others
	Pruned   int64     `json:"pruned"`        // how many were removed because they were old
	// Journalled is the number of the newest receipt in the journal; 0 where the journal knows none, and nothing tells
	// whether newer ones are missing.
	Journalled int64  `json:"journalled"`
	Torn       string `json:"torn,omitempty"` // the last file, which a crash left unfinished
	Break      *Break `json:"break,omitempty"`
}

// Break is the first place where a chain does not hold.
type Break struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Chain is a check of receipts, one after the other.
type Chain struct {
	report  Report
	journal Journal
	base    Head // what was pruned
	prev    string
	last    string // the name of the last file that holds
	torn    *Break // what is wrong if it is not the last
}

// NewChain begins to check the receipts of a state directory after those that were pruned.
func NewChain(instance string, pruned Head, j Journal) *Chain {
	c := &Chain{journal: j, base: pruned, prev: Genesis(instance)}
	if pruned.N > 0 {
		c.prev = pruned.Hash
	}
	c.report = Report{Version: Version, Head: pruned, Pruned: pruned.N, Journalled: j.Newest.N}
	return c
}

// Next checks the next file, by name. After a break it does nothing.
func (c *Chain) Next(name string, text []byte) {
	n, run, ok := ReadName(name)
	if !ok || c.report.Break != nil {
		return
	}
	if c.torn != nil {
		c.report.Break = c.torn
		return
	}
	hash := Hash(text)
	if n <= c.base.N {
		if n == c.base.N && hash != c.base.Hash {
			c.broken(name, "it is not the receipt that was pruned last")
		}
		return
	}
	switch want := c.report.Head.N + 1; {
	case n > want:
		c.broken(name, missing(want, n-1)+" before it")
		return
	case n < want:
		c.broken(name, "there is another receipt of its number")
		return
	}
	r, err := Read(text)
	switch {
	case err != nil:
		c.unreadable(name, n, err)
	case r.N != n || r.Run != run:
		c.broken(name, fmt.Sprintf("it has receipt %d, of run %s", r.N, r.Run))
	case c.changed(n, run, hash):
		c.broken(name, "it was changed: the journal has another hash of it")
	case r.Prev != c.prev && c.last == "":
		c.broken(name, "it does not follow from the beginning, "+c.prev)
	case r.Prev != c.prev:
		c.broken(c.last, "it was changed: "+name+" follows from another one")
	default:
		c.take(name, hash, r)
	}
}

// changed reports whether the journal knows a receipt as another one.
func (c *Chain) changed(n int64, run, hash string) bool {
	known := c.journal.Hashes[run]
	if n == c.journal.Newest.N {
		known = c.journal.Newest.Hash
	}
	return known != "" && known != hash
}

// unreadable is a break, but for the last file, if its session has not ended for the journal.
func (c *Chain) unreadable(name string, n int64, err error) {
	b := &Break{name, err.Error()}
	if n <= c.journal.Newest.N {
		c.report.Break = b
		return
	}
	c.torn, c.report.Torn = b, name
}

func (c *Chain) take(name, hash string, r *Receipt) {
	if c.report.Receipts++; c.report.First == 0 {
		c.report.First, c.report.From = r.N, r.EndedAt
	}
	c.report.To, c.report.Head = r.EndedAt, Head{r.N, hash}
	c.prev, c.last = hash, name
}

func (c *Chain) broken(name, why string) { c.report.Break = &Break{name, why} }

// End returns what was found, after the last file.
func (c *Chain) End() Report {
	newest := c.journal.Newest
	switch head := c.report.Head; {
	case c.report.Break != nil:
		c.report.Torn = ""
	case newest.N > head.N:
		c.broken(Name(head.N+1, "*"), missing(head.N+1, newest.N)+" at the end")
	case newest.N == head.N && newest.Hash != head.Hash: // it was pruned
		c.broken(Name(head.N, "*"), "the journal has another hash of the receipt that was pruned last")
	}
	c.report.OK = c.report.Break == nil
	return c.report
}

func missing(first, last int64) string {
	if first == last {
		return fmt.Sprintf("receipt %d is missing", first)
	}
	return fmt.Sprintf("receipts %d to %d are missing", first, last)
}
