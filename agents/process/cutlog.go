package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/logtime"
)

// cutLog is a session's log that never takes more than limit bytes of the disk. It keeps the first quarter. When the
// log is full, the rest loses its older half, and a line reports the number of missing bytes.
type cutLog struct {
	file  *os.File // for reading and appending; the supervisor appends lines to it too
	limit int64
	size  int64
	head  int64 // offset of the line about the cut; 0 before the first cut
	cut   int64 // missing bytes

	path   string // of the file, to make it again
	owner  *account
	times  *logtime.Writer
	looked time.Time // when restore last compared the two
}

// lookEvery is the least time between two looks at the log's name. A look before each line made writes five times as
// slow.
const lookEvery = 100 * time.Millisecond

// newCutLog continues a log with its present content.
func newCutLog(file *os.File, path string, owner *account, limit int64) (*cutLog, error) {
	size, err := file.Seek(0, io.SeekEnd)
	log := &cutLog{file: file, limit: limit, size: size, path: path, owner: owner, times: logtime.Open(path, size)}
	return log, err
}

// Write appends output. It never fails: on a full disk the output is lost, and the program continues.
func (l *cutLog) Write(text []byte) (int, error) {
	l.restore()
	if l.size+int64(len(text)) > l.limit {
		_ = l.cutMiddle(int64(len(text)))
	}
	if now := time.Now(); l.times.Due(now) {
		if end, err := l.file.Seek(0, io.SeekEnd); err == nil { // behind the supervisor's lines
			l.times.Add(end, now)
		}
	}
	n, _ := l.file.Write(text)
	l.size += int64(n)
	return len(text), nil
}

// restore makes the log again if somebody has deleted its file or moved it away: a service runs for months, and would
// print into a file without a name. The new file takes the old one's descriptor, which frees the disk. If it cannot be
// made, the old file still takes the output.
func (l *cutLog) restore() {
	if time.Since(l.looked) < lookEvery {
		return
	}
	l.looked = time.Now()
	var ours, named unix.Stat_t
	fd := int(l.file.Fd())
	if err := unix.Fstat(fd, &ours); err != nil {
		return
	}
	if err := unix.Lstat(l.path, &named); err == nil && named.Dev == ours.Dev && named.Ino == ours.Ino {
		return
	}
	file, err := openLog(l.path, l.owner)
	if err != nil {
		return
	}
	defer file.Close()
	if unix.Dup3(int(file.Fd()), fd, unix.O_CLOEXEC) != nil {
		return
	}
	if l.file == os.Stdout { // the shim's stderr is the same file
		_ = unix.Dup3(fd, int(os.Stderr.Fd()), unix.O_CLOEXEC)
	}
	l.head, l.cut = 0, 0
	l.times.Restart()
	l.size, _ = l.file.Seek(0, io.SeekEnd)
}

// cutLine is the line about the cut. Its length is always the same, so that it can be replaced.
func (l *cutLog) cutLine() []byte {
	return fmt.Appendf(nil, "disinto: %19d bytes are cut out here: max_log is %d bytes\n", l.cut, l.limit)
}

// cutMiddle cuts out the middle. Afterwards the log has room for the given number of further bytes.
func (l *cutLog) cutMiddle(more int64) error {
	end, err := l.file.Seek(0, io.SeekEnd) // with the supervisor's lines
	if err != nil {
		return err
	}
	if l.head == 0 {
		if l.head, err = l.lineEnd(l.limit / 4); err != nil {
			return err
		}
		l.cut = int64(len(l.cutLine())) // overwritten
	}
	line := int64(len(l.cutLine()))
	from, err := l.lineEnd(end - min((l.limit-l.head)/2, l.limit-l.head-line-more))
	if err != nil || from <= l.head+line {
		return err
	}
	l.cut += from - l.head - line
	if l.size, err = l.move(from, l.head+line); err != nil {
		return err
	}
	l.times.Cut(l.head+line, from)
	return l.file.Truncate(l.size)
}

// move copies the end of the file to an earlier place, writes the line about the cut before it, and returns where the
// copy ends.
func (l *cutLog) move(from, to int64) (end int64, err error) {
	// Linux appends every write to a file that is open for appending, even a pwrite.
	fd := l.file.Fd()
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return 0, err
	}
	if _, err = unix.FcntlInt(fd, unix.F_SETFL, flags&^unix.O_APPEND); err != nil {
		return 0, err
	}
	defer func() {
		_, back := unix.FcntlInt(fd, unix.F_SETFL, flags)
		err = errors.Join(err, back)
	}()
	if _, err = unix.Pwrite(int(fd), l.cutLine(), l.head); err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Pread(int(fd), buf, from)
		if err == nil && n > 0 {
			_, err = unix.Pwrite(int(fd), buf[:n], to)
		}
		if err != nil || n == 0 {
			return to, err
		}
		from, to = from+int64(n), to+int64(n)
	}
}

// lineEnd returns the end of the line that contains offset at, or at itself if that line is long.
func (l *cutLog) lineEnd(at int64) (int64, error) {
	buf := make([]byte, 4<<10)
	n, err := unix.Pread(int(l.file.Fd()), buf, at)
	if i := bytes.IndexByte(buf[:max(n, 0)], '\n'); i >= 0 {
		at += int64(i) + 1
	}
	return at, err
}

// outputPipe carries the output of a session's program from a pipe into its log.
type outputPipe struct {
	log    *cutLog
	pipe   *os.File // our end
	theirs int
	done   chan struct{}
}

// newOutputPipe makes the pipe. When a program opens /dev/stderr, the kernel checks the program's permissions on the
// pipe, so the pipe belongs to the program's account.
func newOutputPipe(log *os.File, path string, limit int64, who *syscall.Credential) (*outputPipe, error) {
	var owner *account
	if who != nil {
		owner = &account{cred: *who}
	}
	cut, err := newCutLog(log, path, owner, limit)
	if err != nil {
		return nil, err
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if who != nil {
		err = unix.Fchown(ends[1], int(who.Uid), int(who.Gid))
	}
	if err = errors.Join(err, unix.SetNonblock(ends[0], true)); err != nil {
		return nil, errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
	}
	ours := os.NewFile(uintptr(ends[0]), "output")
	return &outputPipe{log: cut, pipe: ours, theirs: ends[1], done: make(chan struct{})}, nil
}

// descriptor returns the program's stdout and stderr: its end of the pipe. For a log without a limit it is the log
// itself, the shim's stdout.
func (o *outputPipe) descriptor() uintptr {
	if o == nil {
		return 1
	}
	return uintptr(o.theirs)
}

// start copies, now that the program has its end of the pipe.
func (o *outputPipe) start() {
	if o == nil {
		return
	}
	_ = unix.Close(o.theirs)
	go func() {
		defer close(o.done)
		_, _ = io.CopyBuffer(struct{ io.Writer }{o.log}, struct{ io.Reader }{o.pipe}, make([]byte, 32<<10))
	}()
}

// finish copies the rest of the pipe when all processes of the session have ended. A process elsewhere that received
// the pipe may still write, so finish reads no more than a pipe can hold.
func (o *outputPipe) finish() {
	if o == nil {
		return
	}
	_ = o.pipe.SetReadDeadline(time.Now())
	<-o.done
	fd, buf := int(o.pipe.Fd()), make([]byte, 64<<10)
	_ = unix.SetNonblock(fd, true) // Fd made it blocking
	for range 16 {
		n, err := unix.Read(fd, buf)
		if err != nil || n <= 0 {
			break
		}
		_, _ = o.log.Write(buf[:n])
	}
	_ = o.pipe.Close()
}
