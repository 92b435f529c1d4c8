"""Container images for jobs that name one, run by Podman or Docker, whichever the worker has.

    engine     which of the two answers, and the words of its commands
    words      what its messages mean. Pure
    progress   how far a pull has come, from what the engine prints. Pure
    store      which images are here: pulled once, marked, kept in use, removed by last use
    trying     whether a container can be run at all, and with which limits, found out once
    container  the options of a task's container, and the file that `runtime.container_shim` reads

An image is known by its digest alone. The engine keeps the layers, we keep a mark per digest that
says when it was last used and whether it was pulled for a job: only those are ever removed.
"""
