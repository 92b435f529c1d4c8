"""One machine's worker: takes tasks from a plane, has a supervisor run them, tells what became of
them.

    agent          what to do next: a state machine without clock, threads or I/O
                   (session, slots, log_tail, news are its parts; events and instructions its words)
    driver         carries the instructions out, on threads
    channel        the port to the plane; `api.worker_channel` fills it
    supervisor_link  the connection to the supervisor, which owns every process
    task_work      what is done around one task, at once or on a thread of its own
    task_runner    the steps before a task's start and after its end (package `steps`)
    images         container images for jobs that name one, and the engine that runs them
    environments   what is installed for jobs that name requirements
    machine        what this machine has, reported as it becomes known
    process        one worker put together; its lock

The plane is authoritative for who owns a task, the supervisor for what runs. The worker keeps
nothing on disk that is not in one of the two, so that it may die at any moment.
It never starts a job's process itself (a builder of an environment is its own) and never shows a
secret's value to the plane.
"""
