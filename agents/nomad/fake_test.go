package nomad

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents/nomad/fakenomad"
)

// fake is a Nomad whose tasks run on this machine, with its HTTP server.
type fake struct {
	*fakenomad.Server
	server *httptest.Server
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "nomad-")
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(dir, 0o755)
	f := &fake{Server: fakenomad.New(dir, startTask)}
	f.server = httptest.NewServer(f.Server)
	t.Cleanup(func() {
		f.Close() // or a session left by a failed test would prevent the server from closing
		f.server.CloseClientConnections()
		f.server.Close()
		_ = os.RemoveAll(dir)
	})
	return f
}

// nodeTask is a process on a node.
type nodeTask struct{ *exec.Cmd }

func startTask(c fakenomad.Command) (fakenomad.Process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, c.Out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nodeTask{cmd}, cmd.Start()
}

func (t nodeTask) Signal(s os.Signal) error { return t.Process.Signal(s) }

func (t nodeTask) Kill() error { return t.Process.Kill() }

func (t nodeTask) Wait() (code, signal int) {
	_ = t.Cmd.Wait()
	if ws := t.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal()), int(ws.Signal())
	}
	return t.ProcessState.ExitCode(), 0
}
