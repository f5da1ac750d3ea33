package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// An upgrade as PID 1 is invisible from outside: the supervisor is still PID 1, its session continues, and no TCP
// connection is refused, because the same socket listens throughout. TERM stops the new image as it would the old.
func TestUpgradeAsPID1(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	t.Parallel()
	f := newTestForge(t)
	state, api := t.TempDir(), deadAddress(t)
	path := f.file(state, append(f.justOne(), "[factory]",
		fmt.Sprintf("[factory]\nlisten = %q\nlisten_token = \"$DISINTO_API_TOKEN\"", api),
		`"demo-agent"`, `"demo-agent", "--think", "1h"`)...)
	r := start(t, f.environ(map[string]string{"DISINTO_API_TOKEN": "0123456789abcdef"}),
		"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", executable(t), "run", "--yes", "--config", path)
	before := status(t, state, "an agent works", working)
	socket := listener(t, api)
	stop, refused := make(chan struct{}), make(chan error, 1)
	go func() { refused <- knock(api, stop) }()
	if got := disinto(t.Context(), nil, "upgrade", "--state", state); got.code != exitDone {
		t.Errorf("upgrade: got %+v", got)
	}
	after := status(t, state, "an agent works", working)
	close(stop)
	if err := <-refused; err != nil {
		t.Errorf("during the upgrade: %v", err)
	}
	if before.PID != 1 || after.PID != 1 || after.Upgrades != 1 {
		t.Errorf("got pid %d before, pid %d after, %d upgrades", before.PID, after.PID, after.Upgrades)
	}
	// Other sessions may start meanwhile, and the documents are sorted by thread. So compare the session that ran
	// before.
	ran := before.Sessions[slices.IndexFunc(before.Sessions, implementing)]
	if !slices.ContainsFunc(after.Sessions, func(x control.SessionDocument) bool {
		return x.RunID == ran.RunID && x.PID == ran.PID
	}) {
		t.Errorf("session %+v does not continue: got %+v", ran, after.Sessions)
	}
	if now := listener(t, api); now != socket {
		t.Errorf("socket %s listens, want %s as before", now, socket)
	}
	if err := syscall.Kill(onlyChild(t, r), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if left := f.claimed(); len(left) > 0 {
		t.Errorf("got remaining claims on %v", left)
	}
}

// knock opens one connection after another until stop is closed, and returns the first error. A connection that ends
// without an answer was accepted by the old image. Without a listener all would be refused while the new image starts,
// which takes many milliseconds.
func knock(api string, stop <-chan struct{}) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		time.Sleep(2 * time.Millisecond)
		resp, err := client.Get("http://" + api + "/v1/state")
		if err == nil {
			_ = resp.Body.Close()
		}
		// net/http has no exported error for a connection that ended before the request was sent.
		early := err != nil && strings.HasSuffix(err.Error(), "http: server closed idle connection")
		if err != nil && !early && (errors.Is(err, syscall.ECONNREFUSED) || !cutOff(err)) {
			return err
		}
	}
}

// listener returns the number of the socket that listens on a local address.
func listener(t *testing.T, address string) string {
	t.Helper()
	var port int
	if _, err := fmt.Sscanf(address[strings.LastIndex(address, ":"):], ":%d", &port); err != nil {
		t.Fatal(err)
	}
	file := open(t, "/proc/net/tcp", os.O_RDONLY)
	defer file.Close()
	const local, state, inode = 1, 3, 9
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) > inode && strings.HasSuffix(f[local], fmt.Sprintf(":%04X", port)) && f[state] == "0A" {
			return f[inode]
		}
	}
	t.Fatalf("nothing listens on %s", address)
	return ""
}
