package process

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// CheckStart returns why a system account, named as for CheckUser, cannot start a program in dir with env; nil if
// nothing is known against it. It names the path at fault. It starts nothing, so the kernel may still refuse.
func CheckStart(program, dir string, env []string, user string) error {
	a, err := findAccount(user)
	if err != nil {
		return err
	}
	path, err := Lookup(program, dir, env)
	if err != nil {
		return err
	}
	return a.cannotStart(path, dir)
}

// cannotStart returns why the account cannot start the program at path in dir; nil if nothing is known against it.
func (a *account) cannotStart(path, dir string) error {
	if err := a.barred(dir); err != nil {
		return err
	}
	for range 5 { // as many interpreters as the kernel follows
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := a.barred(path); err != nil {
			return err
		}
		interpreter, err := interpreterOf(path)
		if interpreter == "" || err != nil {
			return err
		}
		if err := runnable(interpreter, dir); err != nil {
			return fmt.Errorf("%s needs %s to run it: %w", path, interpreter, err)
		}
		path = interpreter
	}
	return nil
}

// words names the account for people.
func (a *account) words() string {
	if a == nil {
		return "the supervisor's user"
	}
	return a.name
}

// barred returns an error with the first folder on the way to path that the account may not enter, or with path itself
// if the account may not execute it; nil if neither is so, or path does not exist.
func (a *account) barred(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	at := ""
	a.judge(func() {
		for _, p := range []string{real, path} {
			for i := 1; i <= len(p) && at == ""; i++ {
				if i < len(p) && p[i] != '/' {
					continue
				}
				if unix.Faccessat(unix.AT_FDCWD, p[:i], unix.X_OK, unix.AT_EACCESS) == unix.EACCES {
					at = p[:i]
				}
			}
		}
	})
	if at == "" {
		return nil
	}
	do := "enter"
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		do = "execute"
	}
	return &unrunnable{fmt.Sprintf("%s may not %s %s", a.words(), do, at), syscall.EACCES}
}

// judge calls f with the account's file rights, those of its groups included. The kernel keeps groups per thread, and
// this thread ends with f.
func (a *account) judge(f func()) {
	if a == nil {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		groups := append([]uint32{a.cred.Gid}, a.cred.Groups...)
		_, _, _ = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
		_ = safely("a look at files", func() error {
			return asFileUser(int(a.cred.Uid), int(a.cred.Gid), func() error { f(); return nil })
		})
	}()
	<-done
}

// interpreterOf returns the program that the kernel starts to run the one at path: that of a script's first line, or
// the loader of a program with shared libraries; empty for none. The error says that the kernel does not know the
// file's format.
func interpreterOf(path string) (string, error) {
	f, err := plainfile.OpenNamed(path)
	if err != nil {
		return "", nil // we may execute it, but not read it
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if words := strings.Fields(string(line)); len(words) > 0 {
			return words[0], nil
		}
	}
	if !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return "", &unrunnable{path + " is neither a program nor a script that begins with #!", syscall.ENOEXEC}
	}
	return loader(f, head), nil
}

// loader returns the loader that a program's file names, such as /lib64/ld-linux-x86-64.so.2; empty without one. A
// program for Alpine's musl has one that Debian lacks, and the reverse.
func loader(f io.ReaderAt, head []byte) string {
	const is64, little, wantsLoader = 2, 1, 3 // see elf(5)
	if len(head) < 64 || head[4] != is64 || head[5] != little {
		return ""
	}
	order := binary.LittleEndian
	at, size, n := order.Uint64(head[32:]), uint64(order.Uint16(head[54:])), uint64(order.Uint16(head[56:]))
	for i := range n {
		entry := make([]byte, 40)
		if _, err := f.ReadAt(entry, int64(at+i*size)); err != nil {
			return ""
		}
		if order.Uint32(entry) != wantsLoader {
			continue
		}
		name := make([]byte, min(order.Uint64(entry[32:]), 4<<10))
		_, _ = f.ReadAt(name, int64(order.Uint64(entry[8:])))
		return strings.TrimRight(string(name), "\x00")
	}
	return ""
}
