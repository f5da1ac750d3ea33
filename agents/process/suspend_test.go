package process

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The time in which the machine was suspended counts for no timeout: a clock that is eight hours ahead only because of
// that is no later.
func TestSuspendedTime(t *testing.T) {
	const child = "DISINTO_TEST_BOOT_TIME"
	if os.Getenv(child) != "" {
		_, _ = os.Stdout.WriteString("boot time " + bootTime().String() + "\n")
		return
	}
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--time", "--fork", "--boottime", "28800",
		os.Args[0], "-test.run", "^TestSuspendedTime$")
	cmd.Env = append(os.Environ(), child+"=1")
	text, err := cmd.Output()
	if err != nil {
		t.Skipf("this machine has no time namespaces for us: %v", err)
	}
	_, said, _ := strings.Cut(string(text), "boot time ")
	said, _, _ = strings.Cut(said, "\n")
	at, err := time.ParseDuration(said)
	if err != nil {
		t.Fatal(err)
	}
	if ahead := at - bootTime(); ahead > time.Hour {
		t.Errorf("a machine that was suspended for eight hours is %s ahead", ahead)
	}
}
