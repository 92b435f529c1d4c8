"""Errors that no session shows, and errors that no line to paste can mend: each with its reason."""

from __future__ import annotations

ELSEWHERE = {
    "digest-mismatch": "only a client that sends other bytes than it announces gets it; "
    "tests/unit/artifacts",
    "worker-not-found": "no verb of this version names a worker to the plane; "
    "tests/unit/control_plane",
    "too-large": "its limits are megabytes; tests/unit/contracts and the function runner's tests",
    "envelope-lost": "needs a supervisor killed at one moment; tests/e2e/test_supervisor_deaths.py",
    "start-failed": "needs a system that has no process left to give; tests/e2e of the supervisor",
    "plane-unreachable": "needs a frozen plane and 20 s; tests/e2e/test_local_plane.py",
    "plane-start-failed": "needs a plane that dies at birth; tests/e2e/test_crash_points.py",
    "plane-held": "needs a process that embeds a plane meanwhile; tests/e2e/test_embedded.py",
    "version-mismatch": "needs a plane of another version; tests/unit/api/test_wire.py",
    "disk-full": "needs a full disk; tests/store and tests/unit/artifacts fill small ones",
    "disk-error": "needs a failing disk; tests/store",
    "not-allowed": "only an artifact that is a link gets it; tests/unit/artifacts",
    "plane-full": "needs a queue of a million jobs; tests/unit/control_plane",
    "internal": "a fault of ours; tests/unit/cli/test_main.py raises one",
    "wrong-world": "needs the right to make a namespace; tests/unit/sdk/test_world.py",
}

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
