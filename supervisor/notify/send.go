package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
)

const (
	// maxAnswer bounds the bytes read of an answer. Only the first line of a refusal is useful.
	maxAnswer = 4 << 10
	// maxNtfy is the length in bytes beyond which ntfy turns a message into a file.
	maxNtfy = 4000
)

// senders send letters. They return when their context ends, and their errors do not contain the url.
var senders = map[threads.RecipientKind]func(context.Context, threads.Recipient, Letter) error{
	threads.Ntfy:    sendNtfy,
	threads.Matrix:  sendMatrix,
	threads.Mail:    sendMail,
	threads.Generic: sendGeneric,
}

// Send sends a letter to a recipient, once.
func Send(ctx context.Context, to threads.Recipient, l Letter) error {
	send := senders[to.Kind]
	if send == nil {
		return fmt.Errorf("cannot send by %q", to.Kind)
	}
	err := send(ctx, to, l)
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return errors.New("it does not answer in time")
	}
	return err
}

// sendNtfy publishes as JSON, because the headers of ntfy's other format accept only ASCII.
func sendNtfy(ctx context.Context, to threads.Recipient, l Letter) error {
	return request(ctx, http.MethodPost, to.Endpoint.Reveal(), to, struct {
		Topic   string `json:"topic"`
		Title   string `json:"title"`
		Message string `json:"message"`
		Click   string `json:"click,omitempty"`
	}{to.To[0], l.Title, cut(l.Text, maxNtfy), l.Link})
}

// sendGeneric sends JSON to the operator's own program.
func sendGeneric(ctx context.Context, to threads.Recipient, l Letter) error {
	return request(ctx, http.MethodPost, to.Endpoint.Reveal(), to, struct {
		Title   string `json:"title"`
		Message string `json:"message"`
		Link    string `json:"link,omitempty"`
	}{l.Title, l.Text, l.Link})
}

// sendMatrix sends to each room. The server treats a repeated id as the same message. The empty m.mentions prevents
// text from mentioning people.
func sendMatrix(ctx context.Context, to threads.Recipient, l Letter) error {
	body := l.Title + "\n" + l.Text
	if l.Link != "" {
		body += "\n" + l.Link
	}
	for _, room := range to.To {
		address := to.Endpoint.Reveal() + "/_matrix/client/v3/rooms/" + url.PathEscape(room) + "/send/m.room.message/" + l.ID
		err := request(ctx, http.MethodPut, address, to, map[string]any{
			"msgtype": "m.text", "body": body, "m.mentions": struct{}{},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// client follows no redirect, which would send the token and the message to a host that the operator did not name.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	},
}

// request sends JSON with the recipient's credentials.
func request(ctx context.Context, method, address string, to threads.Recipient, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return errors.New("the url cannot be used") // err contains the url
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "disinto")
	switch {
	case to.User != "":
		r.SetBasicAuth(to.User, to.Password.Reveal())
	case to.Password != "":
		r.Header.Set("Authorization", "Bearer "+to.Password.Reveal())
	}
	answer, err := client.Do(r)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return err
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // the status decides
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return nil
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("it answers with %s: configure the address that it redirects to",
			http.StatusText(answer.StatusCode))
	}
	words := strings.TrimSpace(http.StatusText(answer.StatusCode) + " " + Clean(string(said), 100))
	return fmt.Errorf("it answers with %d %s", answer.StatusCode, words)
}
