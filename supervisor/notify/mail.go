package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// maxTalk bounds the bytes read from a mail server, including its certificates.
const maxTalk = 256 << 10

// sendMail sends a letter to a mail server: over TLS on port 465, and on other ports if the server offers STARTTLS.
// Without TLS, net/smtp sends a password only to this machine.
func sendMail(ctx context.Context, to threads.Recipient, l Letter) error {
	host, port, err := net.SplitHostPort(to.Endpoint.Reveal())
	if err != nil {
		return errors.New("the url cannot be used")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.Endpoint.Reveal())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok { // net/smtp takes no context
		_ = conn.SetDeadline(deadline)
	}
	conn = &bounded{conn, maxTalk}
	secure := &tls.Config{ServerName: host}
	if port == "465" {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if offered, _ := c.Extension("STARTTLS"); offered && port != "465" {
		if err := c.StartTLS(secure); err != nil {
			return err
		}
	}
	if to.User != "" {
		if err := c.Auth(smtp.PlainAuth("", to.User, to.Password.Reveal(), host)); err != nil {
			return fmt.Errorf("cannot sign in: %w", err)
		}
	}
	return deliver(c, to, mailOf(to, l, time.Now()))
}

// deliver sends a mail over an open connection.
func deliver(c *smtp.Client, to threads.Recipient, text []byte) error {
	if err := c.Mail(to.From); err != nil {
		return err
	}
	for _, address := range to.To {
		if err := c.Rcpt(address); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the server has accepted the mail
	return nil
}

// mailOf returns a letter as a mail. Its Message-ID is the letter's, so that a server may recognise a retry.
func mailOf(to threads.Recipient, l Letter, now time.Time) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(to.From, "@")
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s@%s>\r\n",
		to.From, strings.Join(to.To, ", "), mime.QEncoding.Encode("utf-8", l.Title), now.Format(time.RFC1123Z), l.ID, domain)
	b.WriteString("MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Transfer-Encoding: quoted-printable\r\nAuto-Submitted: auto-generated\r\n\r\n")
	body := l.Text + "\n"
	if l.Link != "" {
		body += "\n" + l.Link + "\n"
	}
	w := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(w, strings.ReplaceAll(body, "\n", "\r\n")) // cannot fail: writes to memory
	_ = w.Close()
	return b.Bytes()
}

// bounded is a connection of which at most left bytes are read.
type bounded struct {
	net.Conn
	left int
}

// Read fails when the bound is reached.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the server's answers are too long")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
