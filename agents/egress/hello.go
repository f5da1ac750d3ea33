package egress

import (
	"encoding/binary"
	"errors"
)

// MaxHello bounds the start of a TLS connection up to the end of its ClientHello, in bytes. One with post-quantum keys
// has 2,000.
const MaxHello = 16 << 10

// The errors of ServerName.
var (
	ErrShort = errors.New("the ClientHello is not complete")
	ErrNoTLS = errors.New("it does not begin with a TLS ClientHello")
)

// ServerName returns the name of the server in the ClientHello with which a TLS connection begins, as of Canonical;
// empty if there is none. ErrShort means that more bytes are needed, any other error that this is no TLS.
func ServerName(data []byte) (name string, err error) {
	var hello bytesOf // the contents of the records
	for rest := bytesOf(data); ; {
		if len(hello) >= 4 {
			if hello[0] != 1 { // client_hello
				return "", ErrNoTLS
			}
			if n := int(hello[1])<<16 | int(hello[2])<<8 | int(hello[3]); n > MaxHello {
				return "", ErrNoTLS
			} else if len(hello)-4 >= n {
				return hello[4 : 4+n].serverName()
			}
		}
		if len(rest) > 0 && rest[0] != 22 || len(rest) > 1 && rest[1] != 3 { // handshake, of a version from SSL 3.0 on
			return "", ErrNoTLS
		}
		if len(rest) < 5 {
			return "", short(data)
		}
		n := int(binary.BigEndian.Uint16(rest[3:]))
		if n == 0 {
			return "", ErrNoTLS
		}
		hello = append(hello, rest[5:min(5+n, len(rest))]...)
		rest = rest[min(5+n, len(rest)):]
	}
}

func short(data []byte) error {
	if len(data) >= MaxHello {
		return ErrNoTLS
	}
	return ErrShort
}

// bytesOf is a part of a ClientHello.
type bytesOf []byte

// take removes a vector from the front, whose length has so many bytes.
func (b *bytesOf) take(width int) (v bytesOf, ok bool) {
	if len(*b) < width {
		return nil, false
	}
	n := 0
	for _, c := range (*b)[:width] {
		n = n<<8 | int(c)
	}
	if len(*b)-width < n {
		return nil, false
	}
	v, *b = (*b)[width:width+n], (*b)[width+n:]
	return v, true
}

// serverName reads the body of a ClientHello.
func (b bytesOf) serverName() (name string, err error) {
	const versionAndRandom = 34
	if len(b) < versionAndRandom {
		return "", ErrNoTLS
	}
	b = b[versionAndRandom:]
	for _, width := range []int{1, 2, 1} { // session id, ciphers, compression
		if _, ok := b.take(width); !ok {
			return "", ErrNoTLS
		}
	}
	if len(b) == 0 {
		return "", nil
	}
	all, ok := b.take(2)
	if !ok || len(b) > 0 {
		return "", ErrNoTLS
	}
	named := false
	for len(all) > 0 {
		if len(all) < 2 {
			return "", ErrNoTLS
		}
		kind := binary.BigEndian.Uint16(all)
		all = all[2:]
		ext, ok := all.take(2)
		if !ok {
			return "", ErrNoTLS
		}
		if kind != 0 { // server_name
			continue
		}
		list, ok := ext.take(2)
		if !ok || named || len(ext) > 0 || len(list) == 0 || list[0] != 0 { // one name, of the kind host_name
			return "", ErrNoTLS
		}
		list, named = list[1:], true
		text, ok := list.take(2)
		if !ok || len(list) > 0 {
			return "", ErrNoTLS
		}
		if name, ok = Canonical(string(text)); !ok {
			return "", ErrNoTLS
		}
	}
	return name, nil
}
