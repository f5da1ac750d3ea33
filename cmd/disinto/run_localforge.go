//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/forge/localforge"
)

const localforgeName = "localforge"

// localforgeCommand serves the embedded forge. The demo runs it as a child, so that the supervisor uses it over HTTP
// like a real forge.
func localforgeCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: localforgeName, Args: cobra.NoArgs, Hidden: true,
		Short: "run the embedded forge on loopback, for the demo and tests",
		Long: `
Prints one line of JSON with its address and the token of its first account, an
administrator. It keeps repositories in --dir and everything else in memory. It
ends when stdin is closed, and so does not outlive its parent.`,
	}
	dir := cmd.Flags().String("dir", "", "store repositories in `DIR`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return serveForge(cmd.Context(), c, *dir) }
	return cmd
}

// forgeAdmin is the first account of the embedded forge.
const forgeAdmin = "root"

// forgeReady is the line that localforge prints when it answers requests.
type forgeReady struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

func serveForge(ctx context.Context, c *cli, dir string) error {
	if dir == "" {
		return usagef("localforge needs --dir")
	}
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot serve the forge: %w", err)
	}
	defer listener.Close()
	ready := forgeReady{URL: "http://" + listener.Addr().String()}
	f, err := localforge.New(localforge.Options{Dir: dir, URL: ready.URL, Run: forgeGit(reaper, c.environ)})
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.AddUser(forgeAdmin, "", true); err != nil {
		return err
	}
	if ready.Token, err = f.AddToken(forgeAdmin); err != nil {
		return err
	}
	if err := json.NewEncoder(c.stdout).Encode(ready); err != nil {
		return fmt.Errorf("cannot print the forge's address: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, c.stdin)
		cancel()
	}()
	return serve(ctx, listener, f)
}

// serve handles requests until ctx is done, and then waits up to a second for those in progress.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		brief, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(brief) != nil {
			server.Close()
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve the forge: %w", err)
	}
	return nil
}
