package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// escapes are manners in which a program leaves a process behind. The process is sh $P, which ignores every request
// to end, and says in $T/up that it runs.
var escapes = map[string]string{
	"a child":                    `sh $P &`,
	"a grandchild":               `(sh $P &)`,
	"a chain of three":           `(((sh $P &) &) &)`,
	"a session of its own":       `setsid sh $P &`,
	"a daemon":                   `(setsid sh $P &)`,
	"a daemon by setsid --fork":  `setsid --fork sh $P`,
	"a daemon without output":    `(cd /; setsid sh $P <&- >&- 2>&- &)`,
	"nohup":                      `nohup sh $P >/dev/null 2>&1 &`,
	"no environment":             `(env -i /bin/sh $P &)`,
	"a daemon without one":       `(setsid env -i /bin/sh $P &)`,
	"another run id":             `(DISINTO_RUN_ID=other setsid sh $P &)`,
	"another name":               `cp /bin/sh $T/kworker; ($T/kworker $P &)`,
	"a parent that kills itself": `sh $P & while [ ! -e $T/up ]; do sleep 0.01; done; kill -9 $$`,
	"a stopped process":          `(sh $P & while [ ! -e $T/up ]; do sleep 0.01; done; kill -STOP $!)`,
	"a stopped shim":             `(sh $P &); while [ ! -e $T/up ]; do sleep 0.01; done; kill -STOP $PPID`,
	"a process that moves on": `echo "trap '' TERM; touch $T/up; sleep 0.02; setsid sh $T/q $W &" >$T/q
		(setsid sh $T/q $W &)`,
	"a child of a timeout":  `(timeout -k 1000 1000 sh $P &)`,
	"a low priority":        `(nice -n 19 setsid sh $P &)`,
	"a terminal of its own": `(script -qc "sh $P" /dev/null >/dev/null 2>&1 &)`,
	"a user namespace":      `(unshare -U setsid sh $P &)`,
	"a pid namespace":       `(unshare -Up --fork setsid sh $P &)`,
	"a mount namespace":     `(unshare -Um setsid sh $P &)`,
}

// No process outlives its session or service, whatever it does to its group, session, parent, name, environment or
// namespace, and whether the program exits or is ended. With DISINTO_STORMS each manner is tried 20 times.
func TestEscapes(t *testing.T) {
	for name, script := range escapes {
		for _, service := range []string{"", "loud"} {
			for range storm(20, 1) {
				t.Run(name+" of a session or service "+service, func(t *testing.T) {
					t.Parallel()
					escapesAndEnds(t, script, service)
				})
			}
		}
	}
}

func escapesAndEnds(t *testing.T, script, service string) {
	for _, tool := range []string{"setsid", "timeout", "script", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil && strings.Contains(script, tool+" ") {
			t.Skip(err)
		}
	}
	if strings.Contains(script, "unshare -U") && exec.Command("unshare", "-U", "true").Run() != nil {
		t.Skip("no user namespaces here")
	}
	word := token()
	// Otherwise the program exits by itself, which a stopped shim does not notice before the timeout.
	ends := serial.Add(1)%2 == 0 || strings.Contains(script, "$PPID")
	job := newJob(t, script+"\nwhile [ ! -e $T/up ]; do sleep 0.01; done; touch $T/ready\n")
	if ends {
		job.Command[2] += "sleep 1000"
	}
	dir := filepath.Dir(job.Dir)
	p := filepath.Join(dir, "p")
	const program = "trap '' TERM HUP INT QUIT; touch \"$1/up\"; while :; do sleep 0.05; done\n"
	if err := os.WriteFile(p, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	job.Env = append(job.Env, "P="+p+" "+dir+" "+word, "W="+word)
	job.Service, job.Grace, job.Timeout = service, 200*time.Millisecond, time.Minute
	r := background(t, job)
	if ends {
		eventually(t, "the process has escaped", func() bool {
			return exists(r.file("ready")) || strings.Contains(script, "kill -9") && exists(r.file("up"))
		})
		r.stop()
	} else {
		<-r.ended
	}
	if !exists(r.file("up")) {
		t.Errorf("nothing escaped: %s", read(job.LogPath))
	}
	noneAlive(t, word, job.RunID)
}
