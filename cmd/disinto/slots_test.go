package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSlotsProgress(t *testing.T) {
	answer, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slots" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	ask := func(text string) string {
		t.Helper()
		answer, status = text, http.StatusOK
		mark := slotsProgress(t.Context(), server.URL+"/v1")
		if slotsProgress(t.Context(), server.URL+"/") != mark {
			t.Error("without /v1 it is another server")
		}
		return mark
	}
	const (
		reading  = `[{"id":0,"id_task":7,"is_processing":true,"n_prompt_tokens_processed":2048,"next_token":[{"n_decoded":0}],"params":{}},{"id":1,"id_task":6,"is_processing":false}]`
		further  = `[{"id":0,"id_task":7,"is_processing":true,"n_prompt_tokens_processed":4096,"next_token":[{"n_decoded":0}],"params":{}},{"id":1,"id_task":6,"is_processing":false}]`
		writing  = `[{"id":0,"id_task":7,"is_processing":true,"n_prompt_tokens_processed":4096,"next_token":[{"n_decoded":9}],"params":{}},{"id":1,"id_task":6,"is_processing":false}]`
		old      = `[{"id":0,"task_id":7,"state":1,"n_past":100,"prompt":"a long one","next_token":{"n_decoded":3}}]`
		oldLater = `[{"id":0,"task_id":7,"state":1,"n_past":101,"prompt":"a long one","next_token":{"n_decoded":4}}]`
	)
	for _, pair := range [][2]string{{reading, further}, {further, writing}, {old, oldLater}} {
		if a, b := ask(pair[0]), ask(pair[1]); a == "" || b == "" || a == b || a != ask(pair[0]) {
			t.Errorf("%q and %q, want two marks", a, b)
		}
	}
	for _, none := range []string{
		"", "[]", `{"error":{"code":501,"message":"This server does not support slots endpoint."}}`,
		`[{"id":0,"is_processing":false,"n_past":100}]`, `[{"id":0,"state":0}]`, "<html>",
	} {
		if mark := ask(none); mark != "" {
			t.Errorf("%s has the mark %q", none, mark)
		}
	}
	server.Close()
	if mark := slotsProgress(t.Context(), server.URL); mark != "" {
		t.Errorf("nobody there has the mark %q", mark)
	}
}
