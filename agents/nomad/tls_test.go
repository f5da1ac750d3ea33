package nomad

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTLS: a server with its own CA requires client certificates. The client succeeds only with the right files.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"10.0.0.1:4647"`)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	write := func(name, kind string, der []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca.pem", "CERTIFICATE", server.Certificate().Raw, 0o644)
	cert, key := newCertificate(t)
	good := Config{
		Address: server.URL, CACert: ca, ClientCert: write("cli.pem", "CERTIFICATE", cert, 0o644),
		ClientKey: write("key.pem", "PRIVATE KEY", key, 0o600),
	}
	_, other := newCertificate(t)
	edit := func(change func(*Config)) Config { c := good; change(&c); return c }
	for _, tt := range []struct {
		name, want string
		config     Config
	}{
		{"all files", "", good},
		{"no CA", "certificate", edit(func(c *Config) { c.CACert = "" })},
		{"no client certificate", "certificate", edit(func(c *Config) { c.ClientCert, c.ClientKey = "", "" })},
		{"a missing CA file", "no such file", edit(func(c *Config) { c.CACert = "/no/such" })},
		{"a device", "not a plain file", edit(func(c *Config) { c.CACert = "/dev/null" })},
		{"a file without a certificate", "no certificate in it", edit(func(c *Config) { c.CACert = c.ClientKey })},
		{"too long", "longer than", edit(func(c *Config) { c.CACert = write("long", "X", make([]byte, maxPEM), 0o600) })},
		{"a readable key", "chmod 600", edit(func(c *Config) { c.ClientKey = write("open", "PRIVATE KEY", key, 0o640) })},
		{"another key", "with its key", edit(func(c *Config) { c.ClientKey = write("x", "PRIVATE KEY", other, 0o600) })},
	} {
		c := newClient(func() Config { return tt.config })
		var leader string
		_, err := c.call(t.Context(), http.MethodGet, "/status/leader", nil, nil, &leader)
		c.http.CloseIdleConnections()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

// newCertificate returns a self-signed certificate and its key.
func newCertificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	if cert, err = x509.CreateCertificate(rand.Reader, template, template, public, private); err != nil {
		t.Fatal(err)
	}
	if key, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		t.Fatal(err)
	}
	return cert, key
}
