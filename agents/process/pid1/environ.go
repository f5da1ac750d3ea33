package pid1

import (
	"os"
	"slices"
	"strings"
	"syscall"
)

// environ returns the environment as we received it. os.Environ drops empty entries, and all but one of entries with
// the same name.
func environ() []string {
	block, err := readAll("/proc/self/environ")
	if err != nil || len(block) == 0 { // no /proc
		return os.Environ()
	}
	env := strings.Split(strings.TrimSuffix(string(block), "\x00"), "\x00")
	for i, entry := range env {
		if strings.HasPrefix(entry, hidden+debugVar) {
			env[i] = entry[len(hidden):]
		}
	}
	return env
}

// GODEBUG is for the command. With hidden before its name, the runtime of a second image does not see it.
const (
	debugVar = "GODEBUG="
	hidden   = "DISINTO_COMMAND_"
)

// hideGODEBUG starts this program again if GODEBUG would change the init itself: schedtrace prints a line every second
// for as long as the command runs. Without /proc it does nothing.
func hideGODEBUG() {
	if os.Getenv("GODEBUG") == "" {
		return
	}
	env := environ()
	for i, entry := range env {
		if strings.HasPrefix(entry, debugVar) {
			env[i] = hidden + entry
		}
	}
	if keeps != 0 {
		before := setMask(&mask)
		defer setMask(&before)
	}
	_ = syscall.Exec(self, os.Args, env)
}

// readAll is os.ReadFile without its poller, which takes two descriptors and a tenth of a millisecond.
func readAll(path string) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	text := make([]byte, 0, 8<<10)
	for {
		text = slices.Grow(text, 4<<10)
		n, err := syscall.Read(fd, text[len(text):cap(text)])
		if n <= 0 && err != syscall.EINTR {
			return text, err
		}
		text = text[:len(text)+max(n, 0)]
	}
}
