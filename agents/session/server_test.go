package session

import (
	"net/http/httptest"
	"testing"

	"codeberg.org/johba/disinto/agents/llama/fakellama"
)

// The model's name and the context length are the server's if the configuration has none.
func TestModelOfServer(t *testing.T) {
	server := httptest.NewServer(&fakellama.Server{Model: "qwen3", Context: 40_960})
	defer server.Close()
	for _, tt := range []struct {
		work    work
		model   string
		context int
	}{
		{work{Local: true, BaseURL: server.URL + "/v1"}, "qwen3", 40_960},
		{work{Local: true, BaseURL: server.URL + "/v1", Model: "mine"}, "mine", 40_960},
		{work{BaseURL: server.URL + "/v1"}, "", 0}, // a paid API is not queried
		{work{Local: true}, "", 0},
	} {
		c := (&run{Program: &Program{}, work: tt.work}).newCall(t.Context())
		if c.Model != tt.model || c.Context != tt.context {
			t.Errorf("%+v: model %q, context %d", tt.work, c.Model, c.Context)
		}
	}
}
