"""The room of processes: what owns a job's processes, and what runs inside them.

Stdlib only, self-contained, any Python from 3.8; one thread wherever it forks.

    agent --.                      .-- leaf (cgroup) -- job            the usual task
             > s.sock  supervisor <
    client -'                      '-- keeper -- job                   no cgroup, or a terminal

    supervisor   one process per home: lock, socket, idle end. Its docstring is the protocol
      dispatch     what each request does           peers      its connections
      roster       every task, and those of before  attaches   who watches
      tasks        one task: body, streams, log     tails      who follows a log
      launches     request -> what a child needs    envelopes  the worlds of terminals
      visitors     who comes into a task: visits are the commands that they bring
    body         the processes of a task, from fork to proof that none is left
      spawn, quick from fork to exec, the long and the short way; `inside` begins in a cgroup
      cgroup       leaves: kill and proof           processes  subreaper, descendants, markers
      hierarchy    our control groups, their mounts memory     what the kernel ended for want of it
      keeper       a body in a process of its own   keeping    that process
      ladder       INT, TERM, KILL
      outside      what it has at an engine: a container; `container_shim` runs one,
                   `container_visit` a command inside it
    streams      read end -> redaction -> segment and client; `plumbing` lays the ends,
                 `terminal` opens the ptys, `redaction` is pure
    segments     the log of a task: records in one file
    journal      what was begun, and how it ended;  `past` and `sweep` read it after a death
    frames       the bytes on the socket, and the client's side of them
    loop         descriptors, timers, signals
    function_runner, daemon, crash                  a function's process; how ours are started
    zygote       a template that has imported, and forks a child per call
      zygotes      the templates of a supervisor; `zygote_line` speaks to them, `forking` is what
                   a task has of one
      zygote_keys  which calls may share one

The supervisor is the authority on what runs: a task is over when it says so, and it says so only
once nothing of it lives and its last byte is in the log. It never decides what to run, retries
nothing, and knows no GPU.
"""
