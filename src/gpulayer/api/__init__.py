"""HTTP: one table of routes, the server that dispatches by it, and the clients that speak it.

| module | owns |
|---|---|
| `routes` | the table: method, path, name, action, what it takes. Server, clients, docs read it |
| `paths` | where a job is in it |
| `server` | the ASGI application: reads a request, calls one method of the plane, answers |
| `listener` | serves the application on a socket that can be taken away and given back |
| `strangers` | one connection from anybody: what it may cost before it is known |
| `guard` | the door: who calls, and whether they may; `attempts` slows down who guesses |
| `authorize` | the one table of who may do what |
| `credentials` | the text of tokens, codes and sessions: made, read, never shown |
| `handlers` | one function per route; `rights`, `speaking`, ... are parts of it |
| `wire` | the client of the command line and the worker: repeats what was lost |
| `http1`, `endpoints` | one HTTP/1.1 connection; over a Unix socket, TCP or pinned TLS |
| `worker_channel` | the worker's four verbs over `wire` |
| `session_channel` | the same with a session that is renewed, and may be over |

No rule lives here. A handler that decides something is a fault. Bodies are JSON objects; errors
are `{"error": ...}` with the status of their slug; every reply names version and wire.
"""
