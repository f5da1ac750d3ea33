package forgejo

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// This file moves one ref with git's push protocol, because the API has no request for that: one POST to receive-pack.
// A git process would make two requests, and the first one lists every ref of the repository, including two for each
// pull request that it ever had.

const (
	// noObject stands for the commit of a ref that does not exist.
	noObject = "0000000000000000000000000000000000000000"
	// pushTime bounds a push, which runs git and its hooks on the forge: 0.2 s on an idle forge.
	pushTime = 30 * time.Second
)

// object is a git object. Our refs point to commits without parents and with an empty tree, which need no other object.
type object struct {
	kind    objectKind
	content []byte
}

type objectKind byte

const (
	commitObject objectKind = 1
	treeObject   objectKind = 2
)

var emptyTree = object{kind: treeObject}

// id returns git's name of the object.
func (o object) id() string {
	name := "commit"
	if o.kind == treeObject {
		name = "tree"
	}
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", name, len(o.content), o.content))
	return hex.EncodeToString(sum[:])
}

// newCommit makes a commit without parents and files.
func newCommit(at time.Time, message string) object {
	const who = "disinto <disinto@localhost>"
	return object{commitObject, fmt.Appendf(nil, "tree %s\nauthor %s %d +0000\ncommitter %[2]s %[3]d +0000\n\n%[4]s",
		emptyTree.id(), who, at.Unix(), message)}
}

// packOf encodes objects as a git pack.
func packOf(objects ...object) []byte {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	_ = binary.Write(&pack, binary.BigEndian, [2]uint32{2, uint32(len(objects))}) // writing to a buffer never fails
	for _, o := range objects {
		// The first byte has the kind and the lowest four bits of the length; each later byte has seven more bits.
		head, size := byte(o.kind)<<4|byte(len(o.content)&0xf), len(o.content)>>4
		for ; size > 0; size >>= 7 {
			pack.WriteByte(head | 0x80)
			head = byte(size & 0x7f)
		}
		pack.WriteByte(head)
		z := zips.Get().(*zlib.Writer)
		z.Reset(&pack)
		_, _ = z.Write(o.content) // writing to a buffer never fails
		_ = z.Close()
		zips.Put(z)
	}
	sum := sha1.Sum(pack.Bytes())
	pack.Write(sum[:])
	return pack.Bytes()
}

// zips has compressors that were used before: a new one allocates a megabyte, for a commit of 200 bytes.
var zips = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

// move is a change of one ref. The forge makes it only if the ref is at before; noObject there means that the ref must
// not exist. The forge compares and changes in one step, so that only one of several concurrent moves succeeds.
// noObject in after deletes the ref.
type move struct {
	ref, before, after string
}

// refusedMove is the forge's refusal of a move.
type refusedMove struct {
	ref, why string
}

func (e *refusedMove) Error() string { return fmt.Sprintf("the forge refuses %s: %s", e.ref, e.why) }

// declined reports whether a rule of the forge refused the move, rather than the state of the ref.
func (e *refusedMove) declined() bool { return strings.Contains(e.why, "hook declined") }

// Unwrap returns forge.ErrForbidden for a permanent refusal. The caller interprets a refusal that the ref's state
// caused.
func (e *refusedMove) Unwrap() error {
	if e.declined() {
		return forge.ErrForbidden
	}
	return nil
}

// push moves one ref of a repository and sends the objects that the move needs. A *refusedMove means that the ref did
// not move; after any other error the ref may have moved.
func (c *Client) push(ctx context.Context, repo string, m move, objects ...object) error {
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	command := fmt.Sprintf("%s %s %s\x00report-status", m.before, m.after, m.ref)
	fmt.Fprintf(&body, "%04x%s0000", len(command)+4, command)
	if m.after != noObject {
		body.Write(packOf(objects...))
	}
	report, err := c.receivePack(ctx, repo, me, body.Bytes())
	if err != nil {
		return err
	}
	if err := readReport(report, m.ref); err != nil {
		if _, refused := errors.AsType[*refusedMove](err); refused {
			return err
		}
		return fmt.Errorf("%w: cannot read the answer to a push: %w", forge.ErrUnavailable, err)
	}
	return nil
}

// readReport reads the result of a push of one ref: "unpack ok", then "ok REF" or "ng REF WHY".
func readReport(report []byte, ref string) error {
	unpacked := false
	for len(report) >= 4 {
		size, err := strconv.ParseUint(string(report[:4]), 16, 16)
		if err != nil || size != 0 && size < 4 || int(size) > len(report) {
			return fmt.Errorf("%q is not a git packet", oneLine(string(report[:min(len(report), 40)])))
		}
		if size == 0 {
			break
		}
		line := strings.TrimSuffix(string(report[4:size]), "\n")
		report = report[size:]
		verb, rest, _ := strings.Cut(line, " ")
		name, why, _ := strings.Cut(rest, " ")
		switch {
		case verb == "unpack" && rest == "ok":
			unpacked = true
		case verb == "unpack":
			return &refusedMove{ref, oneLine(rest)}
		case verb == "ng" && name == ref:
			return &refusedMove{ref, oneLine(why)}
		case verb == "ok" && name == ref && unpacked:
			return nil
		}
	}
	return errors.New("it does not mention " + ref)
}
