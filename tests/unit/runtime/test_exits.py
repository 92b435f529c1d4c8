"""How a task ended: outcome, reason, exit code, in the order of precedence."""

from __future__ import annotations

import pytest

from gpulayer.contracts.states import Reason, TaskState
from gpulayer.runtime import exits

OK, THREE, CAUGHT_CTRL_C, CTRL_C, KILLED, SEGV = 0, 3 << 8, 130 << 8, 2, 9, 11


def ended(status, **changes):
    given = {
        "cause": None,
        "reason": None,
        "out_of_memory": False,
        "started_at": 1.0,
        "ended_at": 2.0,
        "usage": {},
        "leftovers": 0,
        **changes,
    }
    return exits.ended(status, **given)


@pytest.mark.parametrize(
    ("record", "outcome", "reason", "exit_code"),
    [
        (ended(OK), "succeeded", "exited", 0),
        (ended(THREE), "failed", "exited", 3),
        (ended(SEGV), "failed", "killed", 139),
        (ended(KILLED, out_of_memory=True), "failed", "out_of_memory", 137),
        (ended(THREE, out_of_memory=True), "failed", "exited", 3),
        (ended(137 << 8, out_of_memory=True), "failed", "out_of_memory", 137),
        (ended(137 << 8), "failed", "exited", 137),
        (ended(SEGV, out_of_memory=True), "failed", "killed", 139),
        (ended(KILLED, out_of_memory=True, cause=exits.CANCEL), "cancelled", "user", 137),
        (ended(OK, cause=exits.CANCEL), "cancelled", "user", 0),
        (ended(KILLED, cause=exits.CANCEL, reason="shutdown"), "cancelled", "shutdown", 137),
        (ended(OK, cause=exits.TIMEOUT), "timed_out", "timeout", 124),
        (ended(CTRL_C, cause=exits.INTERRUPT), "cancelled", "user", 130),
        (ended(CAUGHT_CTRL_C, cause=exits.INTERRUPT), "cancelled", "user", 130),
        (ended(THREE, cause=exits.INTERRUPT), "failed", "exited", 3),
        (ended(OK, cause=exits.INTERRUPT), "succeeded", "exited", 0),
        (ended(CTRL_C), "failed", "killed", 130),
        (exits.refused("not-found", "", 1.0), "failed", "not_found", 127),
        (exits.refused("not-executable", "", 1.0), "failed", "not_executable", 126),
        (exits.refused("folder-gone", "", 1.0), "failed", "folder_gone", 126),
        (exits.refused("envelope-lost", "", 1.0), "failed", "envelope_lost", 125),
        (exits.refused("something-new", "", 1.0), "failed", "preparation", 126),
        (exits.lost(None, 1.0, ""), "lost", "supervisor_lost", 125),
    ],
)
def test_each_end_has_its_outcome_reason_and_code(record, outcome, reason, exit_code):
    assert (record["outcome"], record["reason"], record["exit_code"]) == (
        outcome,
        reason,
        exit_code,
    )
    assert TaskState(record["outcome"])
    assert Reason(record["reason"])


def test_every_record_has_the_same_fields():
    shapes = {
        frozenset(r) for r in (ended(OK), exits.refused("x", "", 1.0), exits.lost(1.0, 2.0, ""))
    }
    assert len(shapes) == 1


def test_signals_have_names_where_the_system_knows_one():
    assert exits.signal_name(9) == "SIGKILL"
    assert exits.signal_name(50) == "signal 50"
