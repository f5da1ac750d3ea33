package session

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// The words are those of real CLIs and backends. The machine's zone is Berlin's, an hour ahead of UTC.
func TestResetTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 30, 0, 0, berlin)
	tests := []struct{ words, want string }{ // want is empty, or in UTC
		{"You've hit your limit · resets 1pm (Europe/Lisbon)", "2026-11-21 13:00"},
		{"You've hit your session limit · resets 11pm (Europe/Paris)", "2026-11-21 22:00"},
		{"You've hit your 5-hour limit · resets 6:27am (UTC)", "2026-11-22 06:27"},
		{"You've hit your 5-hour limit · resets Jan 1, 2030, 12am (UTC)", "2030-01-01 00:00"},
		{"You've hit your weekly limit · resets Nov 28 at 3pm (America/New_York)", "2026-11-28 20:00"},
		{"weekly limit, resets Jan 2, 9:15 a.m. (Asia/Tokyo)", "2027-01-02 00:15"},
		{"You've hit your usage limit. Upgrade to Pro, or try again at 12:36 PM.", "2026-11-21 11:36"},
		{"You've hit your usage limit. To get more access now, try again at Nov 30th, 2026 8:15 AM.", "2026-11-30 07:15"},
		{"usage limit, try again at 12:25 PM", "2026-11-21 11:25"}, // just over, and not tomorrow
		{"usage limit, try again at 12:05 PM", "2026-11-22 11:05"},
		{"usage limit, resets 18:30", "2026-11-21 17:30"},
		{"resets Dec 1 (UTC)", "2026-12-01 00:00"},
		{"You've hit your usage limit. Try again in 2 days 3 hours 4 minutes.", "2026-11-23 14:34"},
		{"Rate limit reached. Please try again in 1h30m0s.", "2026-11-21 13:00"},
		{"Please retry in 90.5s", "2026-11-21 11:31"},
		{"429 Too Many Requests, retry-after: 7200", "2026-11-21 13:30"},
		{`{"error":{"type":"usage_limit_reached","resets_at":1795270000,"resets_in_seconds":12345}}`, "2026-11-21 14:06"},
		{`{"resets_in_seconds":3600}`, "2026-11-21 12:30"},
		{"Claude AI usage limit reached|1795270000", "2026-11-21 14:06"},
		{"quota exhausted until 2026-11-22T10:00:00Z", "2026-11-22 10:00"},
		{"You've hit your usage limit. Try again later.", ""},
		{"resets 5 limits", ""},
		{"resets 1pm (Atlantis/Center)", ""},
		{"exceeded retry limit, last status: 429 Too Many Requests", ""},
		{"", ""},
	}
	for _, tt := range tests {
		got := ""
		if at := resetTime(tt.words, now); !at.IsZero() {
			got = at.UTC().Truncate(time.Minute).Format("2006-01-02 15:04")
		}
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.words, got, tt.want)
		}
	}
}

// A limit that says when it ends parks until then, whichever way it comes, and the event's own time counts more.
func TestLimitedUntil(t *testing.T) {
	const event = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795262400}}` + "\n"
	tests := []struct{ cli, stream, want string }{
		{"claude", `{"type":"result","is_error":true,"result":"You've hit your limit · resets 1pm (UTC)"}`, "13:00"},
		{"claude", event + `{"type":"result","is_error":true,"result":"You've hit your limit · resets 1pm (UTC)"}`, "12:00"},
		{"claude", "You've hit your limit · resets 2pm (UTC)", "14:00"},
		{"codex", `{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again at 3:05 PM."}}`, "15:05"},
		{"codex", `{"type":"error","message":"You've hit your usage limit. Try again at 4 PM."}`, "16:00"},
		{"opencode", `{"type":"error","error":{"name":"APIError","data":{"message":"slow down","statusCode":429,` +
			`"responseHeaders":{"retry-after":"3600"}}}}`, "13:00"},
		{"opencode", `{"type":"error","error":{"name":"APIError","data":{"message":"slow down","statusCode":429,` +
			`"responseHeaders":{"retry-after":"Sat, 21 Nov 2026 17:00:00 GMT"}}}}`, "17:00"},
		{"opencode", `{"type":"error","error":{"name":"APIError","data":{"message":"slow down","statusCode":429,` +
			`"responseBody":"{\"resets_in_seconds\":7200}"}}}`, "14:00"},
		{"qwen", `{"type":"result","is_error":true,"error":{"message":"[API Error: 429 quota, try again in 20m]"}}`, "12:20"},
		{"codex", `{"type":"turn.failed","error":{"message":"You've hit your usage limit."}}`, "00:00"},
	}
	for _, tt := range tests {
		r := parse(adapters[tt.cli], []byte(tt.stream))
		out := outcome(tt.cli, r, false, nil, "", noon)
		if got := out.RetryAt.UTC().Format("15:04"); out.Result != agents.Limited || got != tt.want {
			t.Errorf("%s: got %s until %s, want limited until %s", tt.stream, out.Result, got, tt.want)
		}
	}
}
