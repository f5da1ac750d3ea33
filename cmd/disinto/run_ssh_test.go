package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// The arguments of ssh are fixed, except for the host after --, which cannot be read as an option. ssh's environment
// has no secret.
func TestHostReader(t *testing.T) {
	var got process.Cmd
	read := hostReader(func(_ context.Context, cmd process.Cmd) error {
		got = cmd
		_, err := io.WriteString(cmd.Stdout, "words")
		return err
	}, []string{
		"PATH=/bin", "HOME=/root", "SSH_AUTH_SOCK=/a", "FORGE_TOKEN=secret", "ANTHROPIC_API_KEY=secret", "LD_PRELOAD=/x",
	})
	text, err := read(t.Context(), threads.Host{Name: "iris", User: "disinto", Address: "iris.lan", Port: 2222})
	if err != nil || string(text) != "words" {
		t.Fatalf("got %q, %v", text, err)
	}
	want := "ssh -T -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 -o ServerAliveInterval=3 " +
		"-o ServerAliveCountMax=2 -o ForwardAgent=no -o ClearAllForwardings=yes -o PermitLocalCommand=no -o LogLevel=ERROR " +
		"-p 2222 -- disinto@iris.lan disinto fleet export"
	if argv := strings.Join(got.Argv, " "); argv != want {
		t.Errorf("got  %s\nwant %s", argv, want)
	}
	if !slices.Equal(got.Env, []string{"PATH=/bin", "HOME=/root", "SSH_AUTH_SOCK=/a"}) || got.Stdin != nil {
		t.Errorf("got environment %q, input %v", got.Env, got.Stdin)
	}
	if argv := sshExport(threads.Host{User: "u", Address: "h"}); slices.Contains(argv, "-p") {
		t.Errorf("without a port: got %q", argv)
	}
	if argv := sshExport(threads.Host{User: "u", Address: "fd00::7"}); !slices.Contains(argv, "u@fd00::7") {
		t.Errorf("for an IPv6 address: got %q", argv)
	}
	// For a Host of the ssh configuration, that configuration sets the user.
	if argv := strings.Join(sshExport(threads.Host{Address: "iris"}), " "); !strings.HasSuffix(argv,
		" -- iris disinto fleet export") {
		t.Errorf("a name of the ssh configuration: got %s", argv)
	}
}

func TestHostReaderFails(t *testing.T) {
	says := func(out, complaint string, err error) func(context.Context, process.Cmd) error {
		return func(_ context.Context, cmd process.Cmd) error {
			_, outErr := io.Copy(cmd.Stdout, strings.NewReader(out))
			_, errErr := io.Copy(cmd.Stderr, strings.NewReader(complaint))
			return errors.Join(err, outErr, errErr)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		run  func(context.Context, process.Cmd) error
		want string
	}{
		{
			"refused", t.Context(), says("", "Permission denied (publickey).\n", errors.New("ssh: exit status 255")),
			"ssh: exit status 255: Permission denied (publickey).",
		},
		{"fails after its words", t.Context(), says("words", "", errors.New("ssh: exit status 1")), "ssh: exit status 1"},
		{
			"says too much", t.Context(), says(strings.Repeat("x", fleet.MaxExport+1), "", nil),
			"its output is longer than 1024 KiB",
		},
		{
			"complains too much", t.Context(), says("", strings.Repeat("x", 3*maxComplaint), errors.New("ssh: exit status 1")),
			"ssh: exit status 1: " + strings.Repeat("x", maxComplaint),
		},
		{"too late", ended, says("words", "", errors.New("cannot finish ssh: context canceled")), context.Canceled.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, err := hostReader(tt.run, nil)(tt.ctx, threads.Host{User: "u", Address: "h"})
			if err == nil || err.Error() != tt.want || text != nil {
				t.Errorf("got %q, %v, want %s", text, err, tt.want)
			}
		})
	}
	full := limited{most: 5}
	for range 3 {
		if n, err := full.Write([]byte("abc")); n != 3 || err != nil {
			t.Errorf("Write = %d, %v, want 3 and no error", n, err)
		}
	}
	if !full.over || !bytes.Equal(full.text.Bytes(), []byte("abcab")) {
		t.Errorf("got %+v, want only the first bytes kept", full)
	}
}

// The advice depends on ssh's complaint. If the host answered, its answer already says what is wrong.
func TestHostAdvice(t *testing.T) {
	for why, want := range map[string]string{
		"no answer within 10s": "; check that it is up and that no firewall blocks it",
		"ssh: exit status 255: Host key verification failed.": "; connect to it once by hand, " +
			"as this supervisor's account, or add its key to known_hosts",
		"ssh: exit status 127: sh: disinto: not found": "; install disinto there, " +
			"or set its path in the key's command=",
		"it is the same supervisor as iris": ": give each its own host, or remove one from [[fleet.hosts]]",
		"its clock is 10m0s behind ours":    "",
		"ssh: exit status 255: unheard of":  "",
	} {
		if got := hostAdvice(why); got != want {
			t.Errorf("%s: got %q, want %q", why, got, want)
		}
	}
}
