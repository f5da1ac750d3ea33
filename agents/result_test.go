package agents

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParseResult(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	tests := []struct {
		name string
		text string
		want Outcome
	}{
		{"the least", `{"outcome":"done"}`, Outcome{Result: Done, Claimed: true}},
		{
			"everything", `{"outcome":"limited","reason":"5-hour limit","retry_at":"2026-02-03T04:05:06Z","session_id":"a1-b2",
			"usage":{"input_tokens":1,"cached_tokens":2,"output_tokens":3,"cost_usd":0.5}}`,
			Outcome{
				Result: Limited, Reason: "5-hour limit", RetryAt: at, SessionID: "a1-b2", Claimed: true,
				Usage: Usage{InputTokens: 1, CachedTokens: 2, OutputTokens: 3, CostUSD: 0.5},
			},
		},
		{
			"fields of a newer version", `{"outcome":"done","mood":"good","usage":{"thinking_tokens":9}}`,
			Outcome{Result: Done, Claimed: true},
		},
		{
			"cached tokens not reported", `{"outcome":"done","usage":{"input_tokens":9,"cached_tokens":null}}`,
			Outcome{Result: Done, Claimed: true, Usage: Usage{InputTokens: 9, CacheUntold: true}},
		},
		{
			"a resumed conversation",
			`{"outcome":"done","resumed":{"cached_tokens":90,"computed_tokens":10,"changed":"line 3: x\u001b[31m\n"}}`,
			Outcome{Result: Done, Claimed: true, Resumed: &Resumption{Cached: 90, Computed: 10, Changed: "line 3: x [31m"}},
		},
		{
			"an impossible resumption",
			`{"outcome":"done","resumed":{"cached_tokens":-1,"computed_tokens":9000000000000000000}}`,
			Outcome{Result: Done, Claimed: true, Resumed: &Resumption{Computed: MaxTokens}},
		},
		{"a reason is never missing", `{"outcome":"failed"}`, Outcome{
			Result: Failed, Reason: "the program gave no reason",
			Claimed: true,
		}},
		{
			"a reason is one line", `{"outcome":"refused","reason":"too\n\tlarge\u001b[31m!\u0000 "}`,
			Outcome{Result: Refused, Reason: "too large [31m!", Claimed: true},
		},
		{
			"a reason is short", `{"outcome":"failed","reason":"` + strings.Repeat("ä", 501) + `"}`,
			Outcome{Result: Failed, Reason: strings.Repeat("ä", 499) + "…", Claimed: true},
		},
		{"no progress", `{"outcome":"no-progress","reason":"x"}`, Outcome{Result: NoProgress, Reason: "x", Claimed: true}},
		{"backend down", `{"outcome":"backend-down","reason":"x"}`, Outcome{Result: BackendDown, Reason: "x", Claimed: true}},
		{
			"a question", `{"outcome":"question","words":" Which one?\r\n\r\n- a\u001b[31m\n\t- b\u202e\u0000\n "}`,
			Outcome{
				Result: Question, Reason: "Which one? - a [31m - b", Words: "Which one?\n\n- a[31m\n\t- b", Claimed: true,
			},
		},
		{
			"an endless plan", `{"outcome":"plan","reason":"long","words":"` + strings.Repeat("ä", MaxWords) + `"}`,
			Outcome{
				Result: Planned, Reason: "long", Claimed: true, Words: strings.Repeat("ä", MaxWords/2-6) + "\n\n[cut here]",
			},
		},
		{"words of another outcome", `{"outcome":"done","words":"x"}`, Outcome{Result: Done, Claimed: true}},
		{
			"null is nothing", `{"outcome":"done","session_id":null,"usage":null,"retry_at":null}`,
			Outcome{Result: Done, Claimed: true},
		},
		{"blanks around it", " {\"outcome\":\"done\"}\r\n", Outcome{Result: Done, Claimed: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseResult([]byte(tt.text))
			if err != nil {
				t.Fatalf("ParseResult: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseResult (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseResultRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", "not the JSON"},
		{"a fortune", `{"outcome":"done","usage":{"cost_usd":1.7e308}}`, "more than 1000000000 tokens or $10000"},
		{"more tokens than there are", `{"outcome":"done","usage":{"input_tokens":9223372036854775807}}`, "more than"},
		{"a question without words", `{"outcome":"question","reason":"x","words":" \n "}`, "no words"},
		{"a plan without words", `{"outcome":"plan"}`, "no words"},
		{"a log", "all done!\n", "not the JSON"},
		{"half a document", `{"outcome":"do`, "not the JSON"},
		{"two documents", `{"outcome":"done"}{"outcome":"failed"}`, "not the JSON"},
		{"a list", `["done"]`, "not the JSON"},
		{"no outcome", `{"reason":"x"}`, "no outcome"},
		{"an unknown outcome", `{"outcome":"success"}`, `unknown outcome "success"`},
		{"capitals", `{"outcome":"Done"}`, `unknown outcome "Done"`},
		{"an outcome that only the supervisor sets", `{"outcome":"cancelled"}`, `unknown outcome "cancelled"`},
		{"an invalid time", `{"outcome":"limited","retry_at":"tomorrow"}`, `retry_at "tomorrow"`},
		{"seconds since 1970", `{"outcome":"limited","retry_at":1770000000}`, "not the JSON"},
		{"an id that is an option", `{"outcome":"done","session_id":"--dangerous"}`, "session_id"},
		{"an id that is a path", `{"outcome":"done","session_id":"../../etc/passwd"}`, "session_id"},
		{"an id with a blank", `{"outcome":"done","session_id":"a b"}`, "session_id"},
		{"an endless id", `{"outcome":"done","session_id":"` + strings.Repeat("a", 201) + `"}`, "session_id"},
		{"negative tokens", `{"outcome":"done","usage":{"output_tokens":-1}}`, "negative usage"},
		{"an early usage that is negative", `{"usage":{"input_tokens":-1}}`, "negative usage"},
		{"negative cost", `{"outcome":"done","usage":{"cost_usd":-0.01}}`, "negative usage"},
		{"too many tokens to count", `{"outcome":"done","usage":{"input_tokens":99999999999999999999}}`, "not the JSON"},
		{"too long", `{"outcome":"done"}` + strings.Repeat(" ", MaxResult), "longer than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseResult([]byte(tt.text))
			if err == nil {
				t.Fatalf("ParseResult = %+v, want an error about %q", got, tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ParseResult: error %v, want %q in it", err, tt.want)
			}
			if diff := cmp.Diff(Outcome{}, got); diff != "" {
				t.Errorf("ParseResult returned an outcome with its error:\n%s", diff)
			}
		})
	}
}

// A program can report its usage before it knows its outcome.
func TestUnfinishedResult(t *testing.T) {
	used := Usage{InputTokens: 7, CachedTokens: 1, OutputTokens: 2, CostUSD: 0.5}
	text, err := FormatProgress(used, Doing{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := ParseResult(text); !errors.Is(err, ErrUnfinished) || !cmp.Equal(o, Outcome{Usage: used}) {
		t.Errorf("ParseResult(%s) = %+v, %v, want only the usage and ErrUnfinished", text, o, err)
	}
	finished, err := FormatResult(&Outcome{Result: Done, Usage: used})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]Usage{string(text): used, string(finished): used, `{"outcome":"done"}`: {}} {
		if u, _, err := ParseProgress([]byte(text)); err != nil || u != want {
			t.Errorf("ParseProgress(%s) = %+v, %v, want %+v", text, u, err, want)
		}
	}
	for _, text := range []string{
		`{"usage":{"cost_usd":NaN}}`, `{"usage":{"cost_usd":Infinity}}`, `{"usage":{"cost_usd":1e999}}`,
		`{"usage":{"cost_usd":-1}}`, `{"usage":{"output_tokens":1000000001}}`, `{"usage":{"input_tokens":1e30}}`,
		`{"usage":`, "",
	} {
		if u, _, err := ParseProgress([]byte(text)); err == nil {
			t.Errorf("ParseProgress(%s) = %+v, want an error", text, u)
		}
	}
}

func TestBudgetReached(t *testing.T) {
	b := Budget{Tokens: 100, USD: 2}
	for _, tt := range []struct {
		tokens int64
		usd    float64
		want   string
	}{
		{99, 1.99, ""}, {100, 0, "100 of 100 tokens"}, {101, 3, "101 of 100 tokens"}, {0, 2, "$2.00 of $2.00"},
	} {
		if got := b.Reached(tt.tokens, tt.usd); got != tt.want {
			t.Errorf("Reached(%d, $%.2f) = %q, want %q", tt.tokens, tt.usd, got, tt.want)
		}
	}
	if got := (Budget{}).Reached(MaxTokens, MaxUSD); got != "" {
		t.Errorf("Reached without a limit = %q, want \"\"", got)
	}
}

func FuzzParseProgress(f *testing.F) {
	f.Add([]byte(`{"usage":{"input_tokens":1,"cost_usd":0.5}}`))
	f.Add([]byte(`{"usage":{"cost_usd":1e308}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, _, err := ParseProgress(text)
		if err == nil && u != u.Bounded() {
			t.Errorf("ParseProgress(%q) = %+v, which is out of bounds", text, u)
		}
	})
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"outcome":"limited","reason":"x","retry_at":"2026-02-03T04:05:06Z","session_id":"a1","usage":{"cost_usd":1}}`))
	f.Add([]byte(`{"outcome":"refused","reason":"\u001b]0;\u202e\n"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := ParseResult(text)
		if err != nil {
			return
		}
		if !o.Claimed || o.Result == "" || o.Reason == "" && o.Result != Done {
			t.Errorf("ParseResult(%q) = %+v, an incomplete outcome", text, o)
		}
		if strings.ContainsAny(o.Reason, "\n\r\x1b\x00") || utf8.RuneCountInString(o.Reason) > maxReason ||
			!utf8.ValidString(o.Reason) {
			t.Errorf("ParseResult(%q) returned the invalid reason %q", text, o.Reason)
		}
		if strings.ContainsAny(o.SessionID, "/ \n\x00") || strings.HasPrefix(o.SessionID, "-") {
			t.Errorf("ParseResult(%q) returned the invalid session id %q", text, o.SessionID)
		}
		if u := o.Usage; u.InputTokens < 0 || u.CachedTokens < 0 || u.OutputTokens < 0 || u.CostUSD < 0 {
			t.Errorf("ParseResult(%q) returned the usage %+v, which is out of bounds", text, u)
		}
		if _, err := json.Marshal(o.Usage); err != nil {
			t.Errorf("ParseResult(%q) returned a usage that cannot be encoded: %v", text, err)
		}
	})
}

// Whatever usage a program reports, it is bounded to finite numbers of at least 0.
func TestUsageBounded(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct{ said, want Usage }{
		{Usage{1, 2, 3, 0.5, true, true}, Usage{1, 2, 3, 0.5, true, true}},
		{Usage{-1, -2, -3, -0.5, false, false}, Usage{}},
		{
			Usage{math.MaxInt64, math.MaxInt64, math.MaxInt64, inf, false, false},
			Usage{MaxTokens, MaxTokens, MaxTokens, MaxUSD, false, false},
		},
		{Usage{math.MinInt64, math.MinInt64, math.MinInt64, -inf, false, false}, Usage{}},
		{Usage{CostUSD: math.NaN()}, Usage{}},
		{Usage{CostUSD: math.MaxFloat64}, Usage{CostUSD: MaxUSD}},
	}
	for _, tt := range tests {
		if got := tt.said.Bounded(); got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.said, got, tt.want)
		}
	}
}

// Hit is unknown if any summed usage does not report its cached tokens. Of two reports on the same session, one that
// has them is enough.
func TestUsageHit(t *testing.T) {
	told, none, untold := Usage{InputTokens: 60, CachedTokens: 40}, Usage{}, Usage{InputTokens: 60, CacheUntold: true}
	written := Usage{OutputTokens: 5}
	for _, tt := range []struct {
		name  string
		usage Usage
		want  float64 // -1: unknown
	}{
		{"told", told, 0.4},
		{"none", none, -1},
		{"untold", untold, -1},
		{"nothing read", written, -1},
		{"nothing cached", Usage{InputTokens: 9}, 0},
		{"all", Usage{CachedTokens: 9}, 1},
		{"both told", told.Add(told), 0.4},
		{"none and told", none.Add(told), 0.4},
		{"one untold", told.Add(untold), -1},
		{"untold in the events, told at the end", untold.Max(told), 0.4},
		{"nothing and untold", none.Max(untold), -1},
		{"both untold", untold.Max(untold), -1},
		{"a part less", told.Add(told).Less(told), 0.4},
	} {
		share, known := tt.usage.Hit()
		if known != (tt.want >= 0) || known && share != tt.want {
			t.Errorf("%s: Hit() = %v, %t, want %v", tt.name, share, known, tt.want)
		}
	}
	if left := untold.Less(untold); left != (Usage{}) {
		t.Errorf("%+v less itself = %+v, want zero", untold, left)
	}
}
