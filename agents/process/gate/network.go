package gate

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// OwnNetwork gives this thread, and the processes that it starts, a network that has loopback alone. Its sockets need
// no answers: none of them leaves it. It needs the capabilities SYS_ADMIN and NET_ADMIN in this user namespace.
func OwnNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("cannot make a network namespace: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	device, err := unix.NewIfreq(loopback)
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, device); err != nil {
		return fmt.Errorf("cannot set its device %s up: %w", loopback, err)
	}
	return nil
}

// lead listens on a port of this thread's network, and leads what connects to it to the same port of the machine.
func (p *Proxy) lead(port int) error {
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("cannot lead to port %d of this machine: %w", port, err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil { // no descriptor is free
				time.Sleep(acceptRest)
				continue
			}
			p.room <- struct{}{}
			go p.leadOne(conn, l.Addr().String())
		}
	}()
	return nil
}

// acceptRest is the pause after a connection that could not be accepted.
const acceptRest = 100 * time.Millisecond

// leadOne serves one connection. This goroutine's thread is in the machine's network.
func (p *Proxy) leadOne(conn net.Conn, to string) {
	defer func() { conn.Close(); <-p.room }()
	out, err := net.DialTimeout("tcp4", to, dialTime)
	if err != nil {
		return
	}
	defer out.Close()
	(&client{p, conn, bufio.NewReader(conn)}).relay(out)
}
