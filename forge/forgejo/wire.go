package forgejo

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"codeberg.org/johba/disinto/forge"
)

// A forge does not limit what strangers write: one request can create an issue of 10 MB. So an answer is cut while it
// is read. A text longer than maxText is cut and says so at its end. An entry that is still larger than maxEntry
// becomes null, which is also how a forge shows an item that it cannot load. An answer that is too long as a whole is
// requested again in smaller pages.
//
// Nor does it limit the labels of an item: with 300 of them, an issue once became null in every list. So of a label
// only the id and the name are kept, and of an item's labels the first mostLabels and those that are needed.
// Who adds labels until another one is not read could remove that one as well.
const (
	maxRaw    = 64 << 20  // bytes of an answer as sent
	maxWhole  = 32 << 20  // bytes of an answer that is not cut
	maxKept   = 16 << 20  // bytes of an answer after cutting
	maxText   = 64 << 10  // bytes of one text, as JSON encodes it
	maxEntry  = 160 << 10 // bytes of one entry of a list
	maxValues = 2_000     // values in one entry: an empty label has three bytes in JSON, and two hundred in memory
	maxAll    = 300_000   // values in one answer
	maxList   = 20_000    // entries of one answer

	mostLabels = 250 // labels of one item
	mostNeeded = 50  // more labels of one item, if they are needed: two labels can have the same name
	maxName    = 200 // bytes of a label's name, as JSON encodes it: a form of the forge allows 50 characters
)

// cutMark ends a text that was cut. A person who writes it in an issue holds up only that issue.
const cutMark = "[cut: the rest of the text is not read]"

// wasCut reports whether a text was cut.
func wasCut(text string) bool { return strings.HasSuffix(text, cutMark) }

var errTooLong = fmt.Errorf("%w: too long an answer", forge.ErrUnavailable)

// cutter copies a JSON value and cuts it. It does not check the syntax; the decoder does.
type cutter struct {
	kept    bytes.Buffer
	depth   int  // nesting of brackets, not counting those of the list itself
	list    bool // the value is a list
	start   int  // offset of the current entry in kept
	values  int  // values of the current entry
	all     int  // values of the answer
	entries int
	dropped int  // entries that became null
	over    bool // the current entry is dropped

	text    int  // bytes of the current text so far; -1 outside a text
	escape  int  // bytes that are left of the current escape sequence
	cutting bool // the rest of the current text is dropped

	key    int      // offset of the last text outside of labels, or of the last key in a label
	named  bool     // the last bytes were the key "labels"
	labels int      // depth of the current list of labels; 0 outside one
	count  int      // labels kept of it
	label  int      // offset of the current label
	member int      // offset of the current member of a label, with the comma before it
	skip   bool     // the current member is dropped
	needed []string // labels that are kept first
}

// cutAnswer reads an answer of at most limit bytes, and returns it cut, with the number of entries that were dropped.
// Of too many labels it keeps the needed ones.
func cutAnswer(in io.Reader, limit int64, needed []string) (kept []byte, dropped int, err error) {
	raw := &io.LimitedReader{R: in, N: limit + 1}
	r, c := bufio.NewReaderSize(raw, 64<<10), &cutter{text: -1, needed: needed}
	for {
		c.plain(r)
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

// plain copies bytes of a text that need no decision, as far as they were read: until a quotation mark, an escape
// sequence or the cut. One byte at a time is slow. It looks at a few bytes at once, because it looks again after each
// escape sequence.
func (c *cutter) plain(r *bufio.Reader) {
	if c.text < 0 || c.escape > 0 || c.cutting {
		return
	}
	next, _ := r.Peek(max(0, min(256, r.Buffered(), c.longest()-c.text)))
	for _, end := range []byte{'"', '\\'} {
		if i := bytes.IndexByte(next, end); i >= 0 {
			next = next[:i]
		}
	}
	c.text += len(next)
	c.put(next...)
	_, _ = r.Discard(len(next))
}

// longest returns the bytes of a text before it is cut.
func (c *cutter) longest() int {
	if c.labels > 0 {
		return maxName
	}
	return maxText
}

// inText processes a byte inside a text. A text is cut between two characters, and never inside an escape sequence.
func (c *cutter) inText(b byte) {
	c.text++
	switch {
	case c.escape == 1 && b == 'u' && c.text > 0: // the first byte of \u: four digits follow
		c.escape = 5
	case c.escape > 0:
	case b == '"':
		if c.cutting {
			c.put([]byte(`\n\n` + cutMark)...)
		}
		c.text, c.cutting = -1, false
		c.put(b)
		return
	default:
		c.cutting = c.cutting || c.text > c.longest() && utf8.RuneStart(b)
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

// outside processes a byte outside texts.
func (c *cutter) outside(b byte) {
	switch b {
	case ' ', '\t', '\r', '\n':
		return
	}
	if c.labels > 0 {
		c.inLabels(b)
		return
	}
	named := c.named
	c.named = false
	switch b {
	case ':':
		c.named = c.isKey(`"labels"`)
	case '"':
		c.text, c.key = 0, c.kept.Len()
	case '[', '{':
		if c.depth == 0 && b == '[' && !c.list && c.kept.Len() == 0 {
			c.list = true
			c.kept.WriteByte(b)
			c.start = c.kept.Len()
			return
		}
		if c.depth++; named && b == '[' {
			c.labels, c.count, c.label = c.depth, 0, c.kept.Len()+1
		}
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

// inLabels processes a byte in a list of labels, outside texts.
func (c *cutter) inLabels(b byte) {
	at := c.depth - c.labels // 0 between labels, 1 in a label, more in a member of it
	switch b {
	case '"':
		c.text, c.key = 0, c.kept.Len()
	case ':':
		if at == 1 && !c.over && !c.skip && !c.isKey(`"id"`) && !c.isKey(`"name"`) {
			c.kept.Truncate(min(c.member, c.kept.Len()))
			c.skip = true
		}
	case ',':
		if at == 0 {
			c.label = c.kept.Len()
		} else if at == 1 {
			c.member, c.skip = c.kept.Len(), false
		}
		if at < 2 && bytes.HasSuffix(c.kept.Bytes(), []byte("[{"[at:at+1])) {
			return // everything before the comma was dropped
		}
	case '[', '{':
		c.depth++
	case ']', '}':
		if c.depth--; at == 1 {
			c.skip = false
			c.put(b)
			c.endLabel()
			return
		} else if at == 0 {
			c.labels = 0
		}
	}
	if c.put(b); at == 0 && b == '{' {
		c.member = c.kept.Len()
	}
}

// isKey reports whether the last text was this one.
func (c *cutter) isKey(text string) bool {
	return !c.over && string(c.kept.Bytes()[min(c.key, c.kept.Len()):]) == text
}

// endLabel drops the label that ended, if the item has too many.
func (c *cutter) endLabel() {
	if c.over {
		return
	}
	c.label = min(c.label, c.kept.Len()) // of an answer that is no JSON
	text, most := c.kept.Bytes()[c.label:], mostLabels
	if c.count >= mostLabels && slices.ContainsFunc(c.needed, func(name string) bool {
		return bytes.Contains(text, []byte(`"name":"`+name+`"`))
	}) {
		most += mostNeeded
	}
	if c.count++; c.count > most {
		c.count--
		c.kept.Truncate(c.label)
	}
}

// put stores bytes of an entry, unless the entry is too large.
func (c *cutter) put(b ...byte) {
	if c.over || c.skip {
		return
	}
	c.kept.Write(b)
	if c.list && (c.kept.Len()-c.start > maxEntry || c.values > maxValues) {
		c.over = true
		c.kept.Truncate(c.start)
		c.kept.WriteString("null")
	}
}

// end ends an entry of the list, or the list.
func (c *cutter) end(b byte) {
	if c.over {
		c.dropped++
	}
	c.kept.WriteByte(b)
	c.start, c.values, c.over = c.kept.Len(), 0, false
	c.entries++
}
