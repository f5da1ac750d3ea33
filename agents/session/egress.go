package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
)

// endSetup tells the session's proxy, once, that the setup is over: from now on its hosts are those of the agent. It
// precedes every CLI and all commands that verify, also in sessions that never set up, such as those that only plan.
// Without the proxy's answer they must not start.
func (r *run) endSetup(ctx context.Context) error {
	if r.Egress == "" || len(r.Room.Setup.Argv) == 0 || r.setupOver {
		return nil
	}
	err := errors.New("$HTTPS_PROXY is no address")
	if u, parseErr := url.Parse(agents.Getenv(r.Environ, "HTTPS_PROXY")); parseErr == nil && u.Host != "" {
		err = tellOver(ctx, u)
	}
	if err != nil {
		return fmt.Errorf("cannot end what only the setup may reach: %w", err)
	}
	r.setupOver = true
	return nil
}

func tellOver(ctx context.Context, proxy *url.URL) error {
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+proxy.Host+egress.SetupOver, nil)
	if err != nil {
		return err
	}
	password, _ := proxy.User.Password()
	ask.SetBasicAuth(proxy.User.Username(), password)
	ask.Header.Set("Proxy-Authorization", ask.Header.Get("Authorization"))
	ask.Header.Del("Authorization")
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return errors.New("the proxy answers " + answer.Status)
	}
	return nil
}

// hostWords says in the prompt which hosts the agent may reach, whatever the template is.
func (r *run) hostWords() string {
	if r.Egress == "" {
		return ""
	}
	return "\nThis session reaches no machines but these, through the proxy of its environment: " + r.Egress +
		"\nA 403 of the proxy means that a host is not allowed. Do not look for a way around it: go on without it, or ask " +
		"for it.\n"
}
