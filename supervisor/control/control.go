// Package control is the control API of a supervisor: its documents, requests and events, the handler that serves them
// and the client that asks.
//
// # Promises
//
// Programs read these documents, so they only grow: fields are added, never renamed or removed. Lists are never null.
// Lists made of a map are sorted. Times are RFC 3339; one that does not apply is left out. Tokens and costs are
// numbers, also when they are zero. A request with a field that this version does not know is refused, because the
// field might be the one that mattered; a client has to skip the fields of an answer that it does not know.
//
// A GET answers from memory, except for GET /v1/convoys?ref=, which may ask the forge. A POST is a command: it answers
// when it is done, or with what is left to do and why. An answer other than 200 is {"error": "..."}, one line: 400 the
// request is wrong, 404 no such thing, 409 not in this state, 503 not now, try again.
//
// # Doors
//
// The unix socket in the state directory has mode 0600 and asks for nothing else. On [factory] listen every request
// needs the token, and a Host that names this factory. On [factory] listen_hooks there is POST /v1/hook only, signed
// with HMAC.
package control
