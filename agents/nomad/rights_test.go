package nomad

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// TestRights starts a real Nomad with ACLs, where the program nomad is in PATH. With the policy of docs/nomad.md, check
// finds nothing and a session runs. Without one right of it, check names that right, on the real Nomad as on the fake.
func TestRights(t *testing.T) {
	r := startNomad(t)
	page, err := os.ReadFile("../../docs/nomad.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(page), "```hcl\nnamespace")
	policy, _, _ = strings.Cut("namespace"+policy, "```")
	cfg := Config{Address: r.address, Token: r.token(t, policy), Volume: "disinto", Program: os.Args[0]}
	b := benchAt(t, r.address)
	b.exec.Config = func() Config { return cfg }
	b.want(b.exec.Run(b.Context(), b.job("true"), nil), agents.Done, "", 1)
	if runs, err := b.exec.Unreported(b.Context(), "i"); len(runs) > 0 || err != nil {
		b.Errorf("Unreported = %q, %v, want none", runs, err)
	}

	fake := newFake(t)
	for _, tt := range []struct {
		denied  string // as the fake names it
		without string // in the policy
	}{
		{denied: ""},
		{denied: "host_volume write", without: "policy = \"write\""},
		{denied: "submit-job", without: `"submit-job", `},
		{denied: "read-job", without: `"read-job", `},
		{denied: "list-jobs", without: `"list-jobs", `},
		{denied: "read-fs", without: `"read-fs", `},
		{denied: "variables read", without: `"read", `},
		{denied: "variables write", without: `"write", `},
		{denied: "variables destroy", without: `, "destroy"`},
		{denied: "node read", without: "node {\n  policy = \"read\"\n}"},
	} {
		t.Run(cmp.Or(tt.denied, "every right"), func(t *testing.T) {
			if !strings.Contains(policy, tt.without) {
				t.Fatalf("the policy of the page has no %s", tt.without)
			}
			less := strings.Replace(policy, tt.without, "", 1)
			real := cfg
			real.Token = r.token(t, less)
			needs := []agents.Job{{Agent: "dev-a", Thread: "box", Sandbox: inSandbox(t.TempDir())}}
			_, got := Check(t.Context(), real, needs)
			fake.Deny(tt.denied)
			_, want := Check(t.Context(), Config{Address: fake.server.URL, Volume: "disinto", Program: os.Args[0]}, needs)
			if diff := gocmp.Diff(lines(want), lines(got)); diff != "" || (tt.denied == "") != (len(got) == 0) {
				t.Errorf("the real Nomad differs from the fake (-fake +real):\n%s", diff)
			}
		})
	}
}

// realNomad is a Nomad with ACLs, one server and one client, that a test has started.
type realNomad struct {
	address    string
	management agents.Secret
}

// startNomad starts a Nomad as the page describes it, and ends it after the test. Without the program, the test is
// skipped.
func startNomad(t *testing.T) *realNomad {
	t.Helper()
	program, err := exec.LookPath("nomad")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("there is no program nomad, or this is not root")
	}
	dir, err := os.MkdirTemp("", "nomad-real-")
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(dir, 0o755)
	ports := freePorts(t, 3)
	path := filepath.Join(dir, "nomad.hcl")
	if err := os.WriteFile(path, fmt.Appendf(nil, realConfig, dir, ports[0], ports[1], ports[2]), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Mkdir(filepath.Join(dir, "volume"), 0o755)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "agent", "-config", path)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its tasks have ended
		_ = cmd.Wait()
		unmountBelow(dir)
		_ = os.RemoveAll(dir)
	})
	r := &realNomad{address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	r.bootstrap(t)
	return r
}

// freePorts returns TCP ports that nothing listens on.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// unmountBelow unmounts the secrets folders that a killed client leaves.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.HasPrefix(f[1], dir+"/") {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
}

// bootstrap waits until the node is ready, with a token that may do everything.
func (r *realNomad) bootstrap(t *testing.T) {
	t.Helper()
	c := newClient(func() Config { return Config{Address: r.address, Token: r.management} })
	deadline := time.Now().Add(2 * time.Minute)
	for ; ; time.Sleep(200 * time.Millisecond) {
		var made struct{ SecretID agents.Secret }
		var err error
		if r.management == "" {
			_, err = c.call(context.Background(), http.MethodPost, "/acl/bootstrap", nil, nil, &made)
			r.management = made.SecretID
		}
		nodes, listErr := c.listNodes(context.Background())
		if len(nodes) == 1 && nodes[0].ready(rawExec) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Nomad has no ready node after two minutes: %v, %v, %+v", err, listErr, nodes)
		}
	}
}

// token returns a token with a policy.
func (r *realNomad) token(t *testing.T, policy string) agents.Secret {
	t.Helper()
	c := newClient(func() Config { return Config{Address: r.address, Token: r.management} })
	name := fmt.Sprintf("p%d", serial.Add(1))
	rules := table{"Name": name, "Rules": policy}
	if _, err := c.call(t.Context(), http.MethodPost, "/acl/policy/"+name, nil, rules, nil); err != nil {
		t.Fatal(err)
	}
	var made struct{ SecretID agents.Secret }
	asked := table{"Name": name, "Type": "client", "Policies": []string{name}}
	if _, err := c.call(t.Context(), http.MethodPost, "/acl/token", nil, asked, &made); err != nil {
		t.Fatal(err)
	}
	return made.SecretID
}

// realConfig is the configuration of a client and a server on the loopback interface.
const realConfig = `
data_dir = "%[1]s/data"
bind_addr = "127.0.0.1"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %[2]d
  rpc  = %[3]d
  serf = %[4]d
}
acl {
  enabled = true
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled = true
  servers = ["127.0.0.1:%[3]d"]
  gc_disk_usage_threshold = 99
  options {
    "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce"
  }
  host_volume "disinto" {
    path = "%[1]s/volume"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`
