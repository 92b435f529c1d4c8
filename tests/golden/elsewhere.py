"""Errors that no session shows, and errors that no line to paste can mend: each with its reason."""

from __future__ import annotations

ELSEWHERE = {
    "digest-mismatch": (
        "only a client that sends other bytes than it announces gets it",
        "unit/artifacts/test_stores.py",
    ),
    "bad-bundle": (
        "only an archive that another program made gets it",
        "unit/artifacts/hostile_zips.py",
    ),
    "data-missing": (
        "needs a data set that goes between the choice of a machine and the start",
        "unit/worker/test_steps.py",
    ),
    "log-removed": (
        "needs a log that is removed while it is read",
        "unit/control_plane/test_housekeeping.py",
    ),
    "port-in-use": ("needs a port that another program holds", "e2e/test_served.py"),
    "too-large": ("its limits are megabytes", "unit/runtime/test_function_runner.py"),
    "database-unreachable": (
        "needs a PostgreSQL server that is away",
        "store/test_postgres_server.py",
    ),
    "folder-not-shared": ("needs two planes on one database", "store/test_shared_folder.py"),
    "fetch-failed": ("needs a web server", "unit/worker/test_fetching.py"),
    "bucket-unreachable": ("needs an object store that is away", "unit/artifacts/test_bucket.py"),
    "bucket-refused": ("needs an object store with other keys", "unit/artifacts/test_bucket.py"),
    "bucket-not-found": ("needs an object store", "unit/artifacts/test_bucket.py"),
    "bucket-full": ("needs an object store that is full", "unit/artifacts/test_bucket.py"),
    "bucket-taken": ("needs two planes and an object store", "e2e/test_object_stores.py"),
    "environment-failed": (
        "the words of the installer are its own",
        "e2e/test_environments.py",
    ),
    "image-unresolved": ("needs a registry that cannot be asked", "unit/sdk/test_images.py"),
    "image-failed": ("the words of the engine are its own", "e2e/test_images.py"),
    "container-failed": ("needs an engine whose client is killed", "e2e/test_images.py"),
    "envelope-lost": ("needs a supervisor killed at one moment", "e2e/test_supervisor.py"),
    "start-failed": (
        "needs a system that has no process left to give",
        "unit/cli/test_rare_messages.py",
    ),
    "plane-unreachable": ("needs a frozen plane and 20 s", "e2e/test_local_plane.py"),
    "plane-start-failed": ("needs a plane that dies at birth", "unit/cli/test_rare_messages.py"),
    "worker-replaced": (
        "needs two machines with one credential",
        "unit/control_plane/test_twins.py",
    ),
    "plane-held": ("needs a process that embeds a plane meanwhile", "e2e/test_embedded.py"),
    "version-mismatch": ("needs a plane of another version", "unit/api/test_wire.py"),
    "not-a-server": ("needs another program's port", "unit/api/test_endpoints.py"),
    "disk-full": ("needs a full disk", "store/test_sqlite_file.py"),
    "disk-error": ("needs a failing disk", "store/test_sqlite_file.py"),
    "plane-full": (
        "needs a queue of a million jobs",
        "unit/control_plane/test_submission.py",
    ),
    "plane-busy": ("needs a thousand clients at once", "unit/api/test_admission.py"),
    "not-joined": ("needs two nodes, one of which never comes", "unit/runtime/test_node_shim.py"),
    "port-taken": ("needs a process that takes the port meanwhile", "e2e/test_launch.py"),
    "worker-unreachable": (
        "needs a worker that is silent, and a job on it",
        "unit/control_plane/test_streams.py",
    ),
    "too-many-streams": ("its limits are hundreds", "unit/control_plane/test_streams.py"),
    "internal": ("needs a fault of ours", "unit/cli/test_rare_messages.py"),
    "wrong-world": ("needs the right to make a namespace", "unit/sdk/test_world.py"),
}
"""slug -> why no session shows it, and the test (below `tests`) that does."""

NOT_BY_A_LINE = {
    "invalid-field": "the file must be edited; the line shows what may stand there",
    "unknown-field": "the file must be edited; the line shows all fields",
    "unsafe-path": "the file must be edited; the line shows the rule",
    "invalid-file": "the file must be edited; the line shows what it may hold",
    "not-yet": "the field must be left out; the line says why",
    "value-not-portable": "the program must be edited; the line says how",
    "function-not-importable": "the program must be edited, or a package installed",
    "result-not-json": "the function must be edited; the line says how",
    "job-failed": "only its author knows; the lines show its log and try it again",
    "killed": "who killed it is not known; the lines show its log and try it again",
}
