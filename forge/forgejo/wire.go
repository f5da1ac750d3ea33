package forgejo

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"codeberg.org/johba/disinto/forge"
)

// What strangers write has no length on a forge: an issue of 10 MB is one request. So an answer is cut while it is
// read. A text longer than maxText is cut and says so at its end, an entry that is larger all the same becomes null,
// which is how a forge shows an item that it cannot load, and an answer that is too long as a whole is asked for in
// smaller pages.
const (
	maxRaw    = 64 << 20  // bytes of an answer as sent
	maxKept   = 16 << 20  // bytes of an answer as kept
	maxText   = 64 << 10  // bytes of one text, as JSON writes it
	maxEntry  = 160 << 10 // bytes of one entry of a list
	maxValues = 2_000     // values in one entry: an empty label is three bytes, and two hundred in memory
	maxAll    = 300_000   // values in one answer
	maxList   = 20_000    // entries of one answer
)

// cutMark is the end of a text that was cut. A person who writes it holds only the own issue.
const cutMark = "[cut: the rest of the text is not read]"

// wasCut reports whether a text was cut.
func wasCut(text string) bool { return strings.HasSuffix(text, cutMark) }

var errTooLong = fmt.Errorf("%w: too long an answer", forge.ErrUnavailable)

// cutter copies a JSON value, cut. It does not check the syntax, which decoding does.
type cutter struct {
	kept    bytes.Buffer
	depth   int  // of brackets, less that of a list as a whole
	list    bool // the value is a list
	start   int  // of the entry in kept
	values  int  // of the entry
	all     int  // values of the answer
	entries int
	dropped int  // entries that became null
	over    bool // the entry is dropped

	text    int  // bytes of the text so far; -1 outside of texts
	escape  int  // bytes that are left of an escape
	cutting bool // the rest of the text is dropped
}

// cutAnswer reads an answer of at most limit bytes and returns it cut, with the number of entries that were dropped.
func cutAnswer(in io.Reader, limit int64) (kept []byte, dropped int, err error) {
	raw := &io.LimitedReader{R: in, N: limit + 1}
	r, c := bufio.NewReaderSize(raw, 64<<10), &cutter{text: -1}
	for {
		b, err := r.ReadByte()
		switch {
		case raw.N <= 0, c.kept.Len() > maxKept, c.entries > maxList, c.all > maxAll:
			return nil, c.dropped, errTooLong
		case err == io.EOF:
			return c.kept.Bytes(), c.dropped, nil
		case err != nil:
			return nil, c.dropped, err
		}
		if c.text >= 0 {
			c.inText(b)
		} else {
			c.outside(b)
		}
	}
}

// inText takes a byte of a text. A text is cut between two characters, and not within an escape.
func (c *cutter) inText(b byte) {
	c.text++
	switch {
	case c.escape == 1 && b == 'u' && c.text > 0: // its first byte: four digits follow
		c.escape = 5
	case c.escape > 0:
	case b == '"':
		if c.cutting {
			for _, b := range []byte(`\n\n` + cutMark) {
				c.put(b)
			}
		}
		c.text, c.cutting = -1, false
		c.put(b)
		return
	default:
		c.cutting = c.cutting || c.text > maxText && utf8.RuneStart(b)
		if b == '\\' {
			c.escape = 2
		}
	}
	if !c.cutting {
		c.put(b)
	}
	if c.escape > 0 {
		c.escape--
	}
}

// outside takes a byte outside of texts.
func (c *cutter) outside(b byte) {
	switch b {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		c.text = 0
	case '[', '{':
		if c.depth == 0 && b == '[' && !c.list && c.kept.Len() == 0 {
			c.list = true
			c.kept.WriteByte(b)
			c.start = c.kept.Len()
			return
		}
		c.depth++
	case ']', '}':
		if c.depth == 0 && c.list {
			c.end(b)
			return
		}
		c.depth--
	case ',':
		if c.depth == 0 && c.list {
			c.end(b)
			return
		}
		c.values++
		c.all++
	}
	c.put(b)
}

// put keeps a byte of an entry, unless the entry is too large.
func (c *cutter) put(b byte) {
	if c.over {
		return
	}
	c.kept.WriteByte(b)
	if c.list && (c.kept.Len()-c.start > maxEntry || c.values > maxValues) {
		c.over = true
		c.kept.Truncate(c.start)
		c.kept.WriteString("null")
	}
}

// end ends an entry of the list.
func (c *cutter) end(b byte) {
	if c.over {
		c.dropped++
	}
	c.kept.WriteByte(b)
	c.start, c.values, c.over = c.kept.Len(), 0, false
	c.entries++
}
