package nomad

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// maxPEM bounds a file of certificates, in bytes.
const maxPEM = 1 << 20

// newTransport returns a transport that uses the certificates of the configuration.
func newTransport(config func() Config) *http.Transport {
	t := &http.Transport{}
	if base, ok := http.DefaultTransport.(*http.Transport); ok {
		t = base.Clone()
	}
	// Servers compress even their error messages, whose length distinguishes them from files: see sendToNode.
	t.DisableCompression = true
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		cfg, err := config().tls()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: cfg}).DialContext(ctx, network, address)
	}
	return t
}

// tls reads the configured files again for each connection, because they are renewed while the supervisor runs.
func (c Config) tls() (*tls.Config, error) {
	cfg := new(tls.Config)
	if c.CACert != "" {
		text, err := plainfile.ReadNamed(c.CACert, maxPEM)
		cfg.RootCAs = x509.NewCertPool()
		if err == nil && !cfg.RootCAs.AppendCertsFromPEM(text) {
			err = errors.New("there is no certificate in it")
		}
		if err != nil {
			return nil, fmt.Errorf("cannot use [nomad] ca_cert %s: %w", c.CACert, err)
		}
	}
	if c.ClientKey == "" {
		return cfg, nil
	}
	cert, err := plainfile.ReadNamed(c.ClientCert, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("cannot use [nomad] client_cert %s: %w", c.ClientCert, err)
	}
	key, err := readKey(c.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("cannot use [nomad] client_key %s: %w", c.ClientKey, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cannot use [nomad] client_cert %s with its key: %w", c.ClientCert, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// readKey reads a private key. It refuses one that other accounts, such as the agents', can read.
func readKey(path string) ([]byte, error) {
	f, err := plainfile.OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, errors.New("others can read it; chmod 600 it")
	}
	return plainfile.Text(f, maxPEM)
}
