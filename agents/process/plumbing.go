package process

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// drain is how long Run still reads output after a command has ended. All output of the command is in the pipe by
// then; a process that it left behind may keep the pipe open indefinitely.
const drain = 100 * time.Millisecond

// plumbing holds the pipes between a command and the readers and writers of its Cmd. Files are passed to the command
// directly.
type plumbing struct {
	theirs  []*os.File     // the command's ends; ours to close once it runs
	input   *os.File       // our end of its stdin, if that is a pipe
	outputs []*os.File     // our ends of its stdout and stderr, where those are pipes
	copies  []func() error // one for each output
	results chan error     // of the copies
}

// connect returns the descriptors 0, 1 and 2 of the command.
func (p *plumbing) connect(cmd Cmd) ([]uintptr, error) {
	in, err := p.source(cmd.Stdin)
	if err != nil {
		return nil, err
	}
	out, err := p.sink(cmd.Stdout)
	if err != nil {
		return nil, err
	}
	errs := out
	if !same(cmd.Stdout, cmd.Stderr) {
		if errs, err = p.sink(cmd.Stderr); err != nil {
			return nil, err
		}
	}
	return []uintptr{in.Fd(), out.Fd(), errs.Fd()}, nil
}

// same reports whether both are one writer, to which two goroutines must not write. A writer that cannot be compared
// equals no other.
func same(a, b io.Writer) (eq bool) {
	defer func() { _ = recover() }()
	return a == b
}

func (p *plumbing) null(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err == nil {
		p.theirs = append(p.theirs, f)
	}
	return f, err
}

func (p *plumbing) source(r io.Reader) (*os.File, error) {
	switch f := r.(type) {
	case nil:
		return p.null(os.O_RDONLY)
	case *os.File:
		return f, nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.theirs, p.input = append(p.theirs, theirs), ours
	return theirs, nil
}

func (p *plumbing) sink(w io.Writer) (*os.File, error) {
	switch f := w.(type) {
	case nil:
		return p.null(os.O_WRONLY)
	case *os.File:
		return f, nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.theirs, p.outputs = append(p.theirs, theirs), append(p.outputs, ours)
	p.copies = append(p.copies, func() error {
		_, err := io.Copy(w, ours)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return copyRest(w, ours)
		}
		_ = ours.Close() // SIGPIPE ends a command that continues to write after its writer has failed
		return err
	})
	return theirs, nil
}

// copyRest copies the contents of a pipe and waits for no more. If drain is over before the copying goroutine ran, as
// under a load of 30 on two processors, Read returns nothing although the pipe is full: a git log was empty.
func copyRest(w io.Writer, pipe *os.File) error {
	raw, err := pipe.SyscallConn()
	if err == nil {
		err = pipe.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return err
	}
	text := make([]byte, 64<<10) // as much as a pipe holds
	n := 0
	err = raw.Read(func(fd uintptr) bool {
		n, _ = unix.Read(int(fd), text) // EAGAIN: the pipe is empty, and a process that was left behind has it open
		return true
	})
	if err == nil && n > 0 {
		_, err = w.Write(text[:n])
	}
	return err
}

// start copies, now that the command runs. finish does not wait for the copy of the input: a reader that blocks must
// not delay the end.
func (p *plumbing) start(stdin io.Reader) {
	closeAll(p.theirs)
	p.theirs = nil
	if input := p.input; input != nil {
		go func() {
			defer input.Close()
			_ = safely("the input of a command", func() error {
				_, err := io.Copy(input, stdin) // EPIPE: the command did not want all of it
				return err
			})
		}()
	}
	p.results = make(chan error, len(p.copies))
	for _, c := range p.copies {
		go func() { p.results <- safely("the output of a command", c) }()
	}
}

// finish reads the rest of the output after the end of the command.
func (p *plumbing) finish() error {
	until := time.Now().Add(drain)
	for _, f := range p.outputs {
		_ = f.SetReadDeadline(until)
	}
	var errs []error
	for range p.copies {
		errs = append(errs, <-p.results)
	}
	return errors.Join(errs...)
}

func (p *plumbing) close() {
	closeAll(p.theirs)
	closeAll(p.outputs)
	_ = p.input.Close() // of nil, too
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
