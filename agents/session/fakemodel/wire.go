package fakemodel

import (
	"fmt"
	"sync/atomic"
)

var ids atomic.Int64

func newID(prefix string) string { return fmt.Sprintf("%s_%08d", prefix, ids.Add(1)) }

// writeMessages answers in the format of Anthropic's messages.
func writeMessages(e *events, model string, t Turn, use *use) {
	e.typed("message_start", object{"message": object{
		"id": newID("msg"), "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": inputTokens - cachedTokens, "cache_read_input_tokens": cachedTokens,
			"cache_creation_input_tokens": 0, "output_tokens": 1,
		},
	}})
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": t.Text}, "end_turn"
	if t.Refuse {
		stop = "refusal"
	}
	if use != nil {
		block = object{"type": "tool_use", "id": newID("toolu"), "name": use.name, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": use.arguments}, "tool_use"
	}
	e.typed("content_block_start", object{"index": 0, "content_block": block})
	e.typed("content_block_delta", object{"index": 0, "delta": delta})
	e.typed("content_block_stop", object{"index": 0})
	e.typed("message_delta", object{
		"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": outputTokens},
	})
	e.typed("message_stop", nil)
}

// writeCompletions answers in the format of OpenAI's chat completions.
func writeCompletions(e *events, model string, t Turn, use *use) {
	id := newID("chatcmpl")
	send := func(choices []any, usage any) {
		data := object{"id": id, "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices}
		if usage != nil {
			data["usage"] = usage
		}
		e.send("", data)
	}
	chunk := func(delta object, reason any) {
		send([]any{object{"index": 0, "delta": delta, "finish_reason": reason}}, nil)
	}
	switch {
	case use != nil:
		chunk(object{"role": "assistant", "tool_calls": []any{object{
			"index": 0, "id": newID("call"), "type": "function",
			"function": object{"name": use.name, "arguments": use.arguments},
		}}}, nil)
		chunk(object{}, "tool_calls")
	case t.Refuse:
		chunk(object{"role": "assistant", "content": t.Text, "refusal": t.Text}, nil)
		chunk(object{}, "content_filter")
	default:
		chunk(object{"role": "assistant", "content": t.Text}, nil)
		chunk(object{}, "stop")
	}
	send([]any{}, object{
		"prompt_tokens": inputTokens, "completion_tokens": outputTokens, "total_tokens": inputTokens + outputTokens,
		"prompt_tokens_details": object{"cached_tokens": cachedTokens},
	})
	if e.left != 0 {
		fmt.Fprint(e.w, "data: [DONE]\n\n")
	}
}

// writeResponses answers in the format of OpenAI's responses.
func writeResponses(e *events, model string, t Turn, use *use) {
	id := newID("resp")
	e.typed("response.created", object{"response": object{
		"id": id, "object": "response", "model": model, "status": "in_progress", "output": []any{},
	}})
	item := object{"type": "message", "id": newID("msg"), "role": "assistant", "status": "completed", "content": []any{
		object{"type": "output_text", "text": t.Text, "annotations": []any{}},
	}}
	if t.Refuse {
		item["content"] = []any{object{"type": "refusal", "refusal": t.Text}}
	}
	if use != nil {
		item = object{
			"type": "function_call", "id": newID("fc"), "call_id": newID("call"), "name": use.name,
			"arguments": use.arguments, "status": "completed",
		}
		if use.namespace != "" {
			item["namespace"] = use.namespace
		}
	}
	e.typed("response.output_item.added", object{"output_index": 0, "item": item})
	e.typed("response.output_item.done", object{"output_index": 0, "item": item})
	e.typed("response.completed", object{"response": object{
		"id": id, "object": "response", "model": model, "status": "completed", "output": []any{item},
		"usage": object{
			"input_tokens": inputTokens, "input_tokens_details": object{"cached_tokens": cachedTokens},
			"output_tokens": outputTokens, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": inputTokens + outputTokens,
		},
	}})
}
