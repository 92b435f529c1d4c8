"""The steps between an assignment and its start. Each is one function of one `TaskPlan`.

| step | what it settles |
|---|---|
| `workspace` | the task's folders, where the job runs when it has no folder of its own |
| `environ` | the environment: changes to the terminal's, or an allow-list of the worker's |
| `staging` | the job's source in its workspace, its inputs and its standard input beside it |
| `visibility` | which GPUs the process sees |
| `workload` | the argument vector; a function becomes the runner and its call file |
| `secrets` | values for the names that the job gives; only ever handed to the supervisor |
| `ending` | after the end: a function's result, and what the plane is told |

A step that allocates says how to take it back on `plan.undo`. A step that cannot do its part
raises a `PreparationError`; nothing of the workload has run then. Steps never import each other.
"""
