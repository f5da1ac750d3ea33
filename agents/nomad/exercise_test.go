package nomad

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/executortest"
)

// TestExercise runs the executor suite on the fake, and on the real Nomad at $NOMAD_ADDR, whose clients run on this
// machine as root.
func TestExercise(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		executortest.Exercise(t, subject(newFake(t).server.URL))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		executortest.Exercise(t, subject(real(t)))
	})
}

// real returns the address of a real Nomad.
func real(t *testing.T) string {
	t.Helper()
	address := os.Getenv("NOMAD_ADDR")
	if address == "" {
		t.Skip("NOMAD_ADDR is not set")
	}
	return address
}

func subject(address string) executortest.Subject {
	return executortest.Subject{
		Keeps: true, Relays: true,
		New: func(_ *testing.T, secrets ...string) executortest.Executor { return newExecutor(address, secrets...) },
		Prepare: func(t *testing.T, job agents.Job) agents.Job {
			job.LogPath = filepath.Join(t.TempDir(), "logs", "run.log")
			job.Limits.Memory = 256 << 20
			job.Sandbox = inSandbox(agents.Getenv(job.Env, "T"))
			return job
		},
	}
}

// newExecutor returns an executor that runs this test binary on the nodes.
func newExecutor(address string, secrets ...string) *Executor {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &Executor{
		Config: func() Config {
			cfg := environConfig(address)
			cfg.Program = self
			return cfg
		},
		Secrets: func() []string { return secrets },
		Report:  func(err error) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), err) },
	}
}

// environConfig returns the cluster that the variables of Nomad's command line describe.
func environConfig(address string) Config {
	return Config{
		Address: address, Token: agents.Secret(os.Getenv("NOMAD_TOKEN")), Namespace: os.Getenv("NOMAD_NAMESPACE"),
		Region: os.Getenv("NOMAD_REGION"), CACert: os.Getenv("NOMAD_CACERT"), ClientCert: os.Getenv("NOMAD_CLIENT_CERT"),
		ClientKey: os.Getenv("NOMAD_CLIENT_KEY"),
	}
}
