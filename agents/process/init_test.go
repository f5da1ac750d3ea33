package process

import (
	"os"
	"strings"
	"testing"
)

// Trim releases pages of the binary; the tests have just used many of them.
func TestTrim(t *testing.T) {
	before := residentFile(t)
	Trim()
	if after := residentFile(t); after >= before {
		t.Errorf("%d kB of files are resident after Trim, want less than the %d before", after, before)
	}
}

// residentFile returns how much of the mapped files is in memory, in kB.
func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "RssFile" {
			kb := 0
			for _, c := range value {
				if '0' <= c && c <= '9' {
					kb = kb*10 + int(c-'0')
				}
			}
			return kb
		}
	}
	t.Skip("the kernel does not report resident file pages")
	return 0
}
