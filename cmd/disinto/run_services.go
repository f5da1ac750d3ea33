//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// prober queries services on this machine. It uses no proxy, keeps no connection open, because a restart would break
// it, and follows no redirect, because that may lead to another server.
var prober = http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// checkReady queries a service's address and returns why the service is not ready; nil if it is.
func checkReady(ctx context.Context, address string) error {
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
			err = u.Err // omit the address, which is in the configuration
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}
