package process

import (
	"path/filepath"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/executortest"
)

// TestExercise runs the suite that every executor must pass.
func TestExercise(t *testing.T) {
	t.Parallel()
	executortest.Exercise(t, executortest.Subject{
		New: func(_ *testing.T, secrets ...string) executortest.Executor {
			return &Executor{Reaper: reaper, Secrets: func() []string { return secrets }}
		},
		Prepare: func(t *testing.T, job agents.Job) agents.Job {
			dir := t.TempDir()
			job.Dir, job.Home = filepath.Join(dir, "work"), filepath.Join(dir, "home")
			job.LogPath = filepath.Join(dir, "logs", "run.log")
			job.ResultPath = filepath.Join(dir, "result", "result.json")
			job.Env = append(job.Env, "DISINTO_RESULT="+job.ResultPath)
			return job
		},
	})
}
