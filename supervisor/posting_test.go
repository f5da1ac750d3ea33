package supervisor_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// Everything that the supervisor posts passes the list of secrets that logs pass: an issue that is filed, and a
// question that quotes the key of a model.
func TestPostsNoSecret(t *testing.T) {
	const key = "sk-live-0123456789"
	environ := func(s *supervisor.Supervisor) { s.Environ = append(s.Environ, "OPENAI_API_KEY="+key) }
	s, w, _ := real(t, t.TempDir(), environ)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	w.Exec.Script = func(agents.Job, int) simtest.Script {
		out := agents.Outcome{Result: agents.Question, Words: "May I use " + key + "?", Claimed: true}
		return simtest.Script{Outcome: out}
	}
	status, body := post(t, server.URL+"/v1/sling", `{"title":"Use `+key+`","body":"With `+key+`."}`)
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, body)
	}
	if is := w.Forge.Get(1); is.Title != "Use [secret]" || is.Body != "With [secret]." {
		t.Errorf("got the issue %q, %q", is.Title, is.Body)
	}
	eventually(t, "a question", func() bool { return len(w.Forge.Comments()) > 0 })
	if said := w.Forge.Comments()[0].Body; !strings.Contains(said, "May I use [secret]?") {
		t.Errorf("got the comment %q", said)
	}
}
