package trace

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads/ledger"
)

// span is a span in OTLP's JSON.
type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"` // 1: internal
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes,omitempty"`
	Status     status      `json:"status"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// value has one of its fields set. OTLP writes integers as strings.
type value struct {
	Text   *string  `json:"stringValue,omitempty"`
	Number *string  `json:"intValue,omitempty"`
	Double *float64 `json:"doubleValue,omitempty"`
}

// status has code 1 for success and 2 for an error.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

const internal = 1

func text(key, s string) attribute { return attribute{key, value{Text: &s}} }

func number(key string, n int64) attribute {
	s := strconv.FormatInt(n, 10)
	return attribute{key, value{Number: &s}}
}

func nanos(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

// result returns the status for a word: success if it is one of well, else an error.
func result(word string, well ...string) status {
	if slices.Contains(well, word) {
		return status{Code: 1}
	}
	return status{Code: 2, Message: word}
}

// request returns the body of an export.
func (t *Tracer) request(spans []span) any {
	type scope struct {
		Name string `json:"name"`
	}
	type scoped struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	type resource struct {
		Attributes []attribute `json:"attributes"`
	}
	type from struct {
		Resource resource `json:"resource"`
		Scoped   []scoped `json:"scopeSpans"`
	}
	return struct {
		From []from `json:"resourceSpans"`
	}{[]from{{
		resource{[]attribute{text("service.name", t.service)}}, []scoped{{scope{"disinto"}, spans}},
	}}}
}

// Meters returns meters that call m's functions and also record spans.
func (t *Tracer) Meters(m supervisor.Meters) supervisor.Meters {
	claimed, ended, done := m.Claimed, m.Ended, m.Done
	m.Claimed = func(c supervisor.Claim) {
		if claimed != nil {
			claimed(c)
		}
		t.claimed(c)
	}
	m.Ended = func(x ledger.Open, end *ledger.End, at time.Time) {
		if ended != nil {
			ended(x, end, at)
		}
		t.ended(x, end, at)
	}
	m.Done = func(d supervisor.Deed) {
		if done != nil {
			done(d)
		}
		t.done(d)
	}
	return m
}

func (t *Tracer) claimed(c supervisor.Claim) {
	chain, run := forge.Ref(c.Start.Chain), c.Start.Run
	t.begin(chain, c.Began)
	if c.Start.Item.Kind == agents.KindSchedule {
		return // scheduled work makes no claim
	}
	t.add(span{
		TraceID: t.traceOf(chain, run), SpanID: idOf(spanBytes, "claim", run), Parent: idOf(spanBytes, "session", run),
		Name: "claim", Kind: internal, Start: nanos(c.Began), End: nanos(c.Ended),
		Attributes: []attribute{text("disinto.agent", c.Start.Agent), text("disinto.result", string(c.Result))},
		Status:     result(string(c.Result), string(supervisor.ClaimWon), string(supervisor.ClaimLost)),
	})
}

// begin records the start of a chain's first session.
func (t *Tracer) begin(chain forge.Ref, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.began[chain]; known || chain.Number == 0 {
		return
	}
	if len(t.began) >= mostChains {
		clear(t.began) // their root spans will start at the merge
	}
	t.began[chain] = at
}

func (t *Tracer) ended(x ledger.Open, end *ledger.End, at time.Time) {
	chain := forge.Ref(x.Chain)
	s := span{
		TraceID: t.traceOf(chain, x.Run), SpanID: idOf(spanBytes, "session", x.Run),
		Name: string(x.Item.Kind), Kind: internal, Start: nanos(x.At), End: nanos(at),
		Attributes: []attribute{
			text("disinto.agent", x.Agent), text("disinto.thread", x.Thread), number("disinto.slot", int64(x.Slot)),
			text("disinto.role", x.Role), text("disinto.item", forge.Ref(x.Item.Ref).String()),
			number("disinto.attempt", int64(x.Attempt)), text("disinto.run_id", x.Run),
			text("disinto.outcome", string(end.Result)),
		},
		Status: result(string(end.Result), string(agents.Done), string(agents.Cancelled)),
	}
	if chain.Number != 0 {
		s.Parent = idOf(spanBytes, "root", s.TraceID)
	}
	if end.Verdict != "" {
		s.Attributes = append(s.Attributes, text("disinto.verdict", string(end.Verdict)))
	}
	if end.Usage != nil {
		used := end.Usage.Bounded()
		s.Attributes = append(s.Attributes, number("gen_ai.usage.input_tokens", used.InputTokens),
			number("disinto.usage.cached_tokens", used.CachedTokens), number("gen_ai.usage.output_tokens", used.OutputTokens),
			attribute{"disinto.usage.cost_usd", value{Double: &used.CostUSD}})
	}
	t.add(s)
}

// done adds the span of a merge attempt. After a successful merge it also adds the chain's root span.
func (t *Tracer) done(d supervisor.Deed) {
	if d.Action != supervisor.ActMerge || d.Chain.Number == 0 {
		return
	}
	id := t.traceOf(d.Chain, "")
	root := idOf(spanBytes, "root", id)
	t.add(span{
		TraceID: id, SpanID: idOf(spanBytes, "merge", id, nanos(d.Began)), Parent: root,
		Name: "merge", Kind: internal, Start: nanos(d.Began), End: nanos(d.Ended),
		Attributes: []attribute{text("disinto.item", d.Ref.String()), text("disinto.result", string(d.Result))},
		Status:     result(string(d.Result), string(supervisor.DeedDone)),
	})
	if d.Result != supervisor.DeedDone {
		return
	}
	t.add(span{
		TraceID: id, SpanID: root, Name: fmt.Sprint("issue ", d.Chain), Kind: internal,
		Start: nanos(t.removeStart(d.Chain, d.Began)), End: nanos(d.Ended), Status: status{Code: 1},
		Attributes: []attribute{text("disinto.item", d.Chain.String())},
	})
}

// removeStart removes a chain's start time and returns it; if it is unknown, it returns otherwise.
func (t *Tracer) removeStart(chain forge.Ref, otherwise time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	began, known := t.began[chain]
	delete(t.began, chain)
	if !known {
		return otherwise
	}
	return began
}
