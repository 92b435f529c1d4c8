"""The command line.

`main` reads `table`, imports the one module of the verb that was typed, and turns any
`GPULayerError` into `error[slug]`, `where:`, `why:`, `help:` and an exit code. A verb asks the
plane over `session`, gets plain JSON, and gives it to `render`. stdout is data, stderr is talk.

Nothing on these paths imports pydantic, rich, httpx2, a web framework or sqlite3.
"""
