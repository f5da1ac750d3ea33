package process

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mostConnections bounds how many bytes of the kernel's tables one observation reads. A line has 150.
const mostConnections = 1 << 20

// connections holds the sockets of our network that have a peer or listen for one.
type connections struct {
	known  bool
	peers  map[uint64]ends // by the socket's number
	listen map[uint64]uint16
}

type ends struct{ local, peer netip.AddrPort }

// readConnections reads the tables in a folder such as /proc/net.
func readConnections(dir string) connections {
	c := connections{peers: make(map[uint64]ends), listen: make(map[uint64]uint16)}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(io.LimitReader(f, mostConnections))
		for lines.Scan() {
			c.read(lines.Text())
		}
		c.known = true
		_ = f.Close()
	}
	return c
}

// read parses a line of the format in proc_net(5): number, local and remote address, state, and the socket as the
// tenth word.
func (c *connections) read(line string) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return
	}
	local, ok1 := address(f[1])
	peer, ok2 := address(f[2])
	socket, err := strconv.ParseUint(f[9], 10, 64)
	switch {
	case !ok1 || !ok2 || err != nil || socket == 0:
	case peer.Port() == 0:
		c.listen[socket] = local.Port()
	default:
		c.peers[socket] = ends{local, peer}
	}
}

// address parses an address such as 0100007F:0016, whose four bytes are in this machine's byte order.
func address(word string) (a netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(word, ":")
	raw, err1 := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err1 != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return a, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok
}

// peersOf returns the peers of some sockets. A client on this machine that connects to one of the session's own
// servers, for example in a test, is not counted.
func (c *connections) peersOf(sockets map[uint64]bool) (hosts []string) {
	serves := make(map[uint16]bool)
	for socket := range sockets {
		if port, ok := c.listen[socket]; ok {
			serves[port] = true
		}
	}
	for socket := range sockets {
		at, ok := c.peers[socket]
		if ok && !(at.peer.Addr().IsLoopback() && serves[at.local.Port()]) {
			hosts = append(hosts, at.peer.String())
		}
	}
	return hosts
}
