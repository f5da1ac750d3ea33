//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// prober asks services on this machine, so it uses no proxy, keeps no connection open that a restart would break, and
// follows no redirect: where that leads is another server.
var prober = http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// askReady asks an address whether the service behind it can be used.
func askReady(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := prober.Do(req)
	if err != nil {
		if late := context.Cause(ctx); late != nil {
			err = late
		}
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the address, which the configuration has
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// services are checked for what would keep them from starting, and agents from being kept off them.
func (k *checker) services() {
	for i := range k.config.Services {
		s := &k.config.Services[i]
		well := true
		problem := func(format string, args ...any) {
			well = false
			k.problem("services", fmt.Errorf(s.Name+": "+format, args...))
		}
		if err := process.CheckUser(s.User); err != nil {
			problem("cannot run it as %s: %w", s.User, err)
		}
		for _, command := range append(slices.Clone(s.Before), s.Command, s.ReadyCommand) {
			if len(command) == 0 {
				continue
			}
			if _, err := process.Lookup(command[0], "", k.c.environ); err != nil {
				problem("cannot find %s: %w; install it, or write its whole path", command[0], err)
			}
		}
		for j := range k.config.Services[:i] {
			if other := &k.config.Services[j]; s.Port() > 0 && other.Port() == s.Port() {
				problem("port %d is that of service %s too", s.Port(), other.Name)
			}
		}
		if well {
			k.well("services", "%s: %s", s.Name, strings.Join(s.Command, " "))
		}
		if line := exposed(k.config, s); line != "" {
			k.note("services", line)
		}
	}
}

// exposed says that agents could end a service, because they have its account; empty when they cannot.
func exposed(c *threads.Config, s *threads.Service) string {
	for i := range c.Agents {
		user := c.Agents[i].User
		if user == "" {
			user = c.Factory.User
		}
		if user == s.User {
			return fmt.Sprintf("%s: it has the account of %s, which could end it: set user to an account of its own", s.Name,
				c.Agents[i].Name)
		}
	}
	return ""
}
