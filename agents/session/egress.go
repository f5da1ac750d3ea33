package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

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
	if err := r.askProxy(ctx, http.MethodPost, egress.SetupOver, nil); err != nil {
		return fmt.Errorf("cannot end what only the setup may reach: %w", err)
	}
	r.setupOver = true
	return nil
}

// askProxy asks the session's proxy itself, and decodes its answer into v, if that is not nil.
func (r *run) askProxy(ctx context.Context, method, path string, v any) error {
	proxy, err := url.Parse(agents.Getenv(r.Environ, "HTTPS_PROXY"))
	if err != nil || proxy.Host == "" {
		return errors.New("$HTTPS_PROXY is no address")
	}
	ask, err := http.NewRequestWithContext(ctx, method, "http://"+proxy.Host+path, nil)
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
	if answer.StatusCode/100 != 2 {
		return errors.New("the proxy answers " + answer.Status)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxRefused)).Decode(v)
}

// maxRefused bounds what the proxy may say about refusals, in bytes. It tells a dozen hosts apart.
const maxRefused = 64 << 10

// refusedWords says in a pull request which hosts the session was refused, but for those that CLIs ask for beside their
// work: its readers then know why something is missing. Without an answer of the proxy it says nothing.
func (r *run) refusedWords(ctx context.Context) string {
	if r.Egress == "" {
		return ""
	}
	var refused agents.Refusals
	if err := r.askProxy(ctx, http.MethodGet, egress.Refused, &refused); err != nil {
		r.logf("cannot tell what this session was refused: %v", err)
		return ""
	}
	refused = refused.Bounded().Telling()
	words, some := strings.CutPrefix(refused.Words(), "refused ")
	if !some {
		return ""
	}
	words = "Its egress kept this session from `" + strings.ReplaceAll(words, "`", "'") + "`."
	if line := refused.Line(); line != "" {
		words += " The line `" + strings.ReplaceAll(line, "`", "'") + "` of factory.toml would allow that."
	}
	return words
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
