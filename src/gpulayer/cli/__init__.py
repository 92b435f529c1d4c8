"""The command line.

`main` reads `table`, imports the one module of the verb that was typed, and turns any
`GPULayerError` into `error[slug]`, `where:`, `why:`, `help:` and an exit code. A verb asks the
plane over `session`, gets plain JSON, and gives it to `render`. stdout is data, stderr is talk.

| module | owns |
|---|---|
| `main` | the entry point: verb, error, exit code |
| `table` | the one table of verbs and flags; `pages`: the texts of `help` |
| `session` | what was typed, the connection, options from the table |
| `flags` | from the options of the starting verbs to a job |
| `outcome` | what a job's end means for the shell, and for a person |
| `render`, `screen` | what people see; what may reach a terminal |
| `waiting`, `checkup` | what a job waits for; what `doctor` looks at |
| all others | one verb each |

Nothing on these paths imports pydantic, rich, httpx2, a web framework or sqlite3, except
`doctor`, which reports the version of SQLite, and job files.
"""
