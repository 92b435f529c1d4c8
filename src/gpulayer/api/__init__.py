"""HTTP: one table of routes, the server that dispatches by it, and the clients that speak it.

| module | owns |
|---|---|
| `routes` | the table: method, path, name, what it takes. Server, clients and docs read it |
| `paths` | where a job is in it |
| `server` | the ASGI application: reads a request, calls one method of the plane, answers |
| `listener` | serves the application on a socket that can be taken away and given back |
| `wire` | the client of the command line and the worker: repeats what was lost |
| `http1` | one HTTP/1.1 connection over a Unix socket |
| `worker_channel` | the worker's four verbs over `wire` |

No rule lives here. A handler that decides something is a fault. Bodies are JSON objects; errors
are `{"error": ...}` with the status of their slug; every reply names version and wire.
"""
