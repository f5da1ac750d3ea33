// Package control is the control API of a supervisor: its documents, requests and events, the handler that serves
// them, and the client.
//
// # Promises
//
// Programs read these documents, so they only grow: fields are added, never renamed or removed. Lists are never null.
// Lists made from a map are sorted. Times are RFC 3339; one that does not apply is omitted. Tokens and costs are
// numbers, even when they are zero. The supervisor refuses a request with a field that it does not know, because that
// field might be essential. A client must ignore unknown fields of an answer.
//
// A GET answers from memory, except for GET /v1/convoys?ref=, which may ask the forge. A POST is a command. Its
// answer says that the command is done, or which steps remain and why. An answer other than 200 is {"error": "..."},
// one line: 400 the request is wrong, 404 no such thing, 409 not in this state, 503 not now, try again.
//
// # Doors
//
// The unix socket in the state directory has mode 0600 and needs no token. On the address [factory] listen, every
// request needs the token, and a Host header that names this factory. The address [factory] listen_hooks serves
// only POST /v1/hook, signed with HMAC.
package control
