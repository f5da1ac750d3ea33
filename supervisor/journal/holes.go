package journal

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/threads/ledger"
)

// patient reads a journal from its beginning. In a line longer than any journal has, it asks the filesystem where data
// is, and makes the NULs of a hole itself: reading a hole fills the page cache, at 460 MB/s in a measurement, which
// makes 17 s for a file of 8 GB without any data.
type patient struct {
	f    *os.File
	at   int64 // of the next byte
	line int64 // bytes since the last line's end
	data int64 // up to here is a hole, if it is beyond at
}

// Read implements io.Reader.
func (r *patient) Read(p []byte) (n int, err error) {
	if r.line > ledger.LineLimit && r.at >= r.data {
		r.data = r.nextData()
	}
	if hole := r.data - r.at; hole > 0 {
		n = int(min(int64(len(p)), hole))
		clear(p[:n])
	} else {
		n, err = r.f.ReadAt(p, r.at)
	}
	r.at += int64(n)
	r.line += int64(n)
	if end := bytes.LastIndexByte(p[:n], '\n'); end >= 0 {
		r.line = int64(n - end - 1)
	}
	return n, err
}

// nextData returns where the next data begins: here, if the filesystem does not know, and at the end if none follows.
func (r *patient) nextData() int64 {
	next, err := unix.Seek(int(r.f.Fd()), r.at, unix.SEEK_DATA)
	if err == nil {
		return next
	}
	info, failed := r.f.Stat()
	if err != unix.ENXIO || failed != nil {
		return r.at
	}
	return info.Size()
}
