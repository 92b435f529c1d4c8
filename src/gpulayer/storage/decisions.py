"""Shapes, and what the scheduler decided about them.

Equal answers in a row to one shape, of one outcome, are one row with a count, so a full queue that
is judged every second, or emptied job by job, writes nothing new. Waiting answers that were
overtaken are kept up to `KEPT` per shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.decision import (
    Check,
    Decision,
    Fit,
    Outcome,
    Placement,
    Shape,
    StoredDecision,
    Verdict,
)
from gpulayer.contracts.ids import JobId, ShapeId
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import Row, to_json

KEPT = 16

_SHAPE = "SELECT body FROM shapes WHERE id = ?"
_PUT_SHAPE = "INSERT INTO shapes (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
_COLUMNS = (
    "d.shape_id, d.outcome, d.body, d.inputs, d.count, d.first_at, d.last_at,"
    " d.first_job_id, d.last_job_id"
)
# A queued job is answered with what keeps its shape waiting, any other with what moved it.
_OF_JOB = f"""
SELECT {_COLUMNS} FROM jobs j JOIN decisions d ON d.id = CASE
    WHEN j.state <> 'queued' AND j.decision_id IS NOT NULL THEN j.decision_id
    ELSE (SELECT max(id) FROM decisions WHERE shape_id = j.shape_id AND outcome = 'waiting') END
WHERE j.id = ?"""
_OF_SHAPE = f"SELECT {_COLUMNS} FROM decisions d WHERE d.shape_id = ? ORDER BY d.id DESC LIMIT 1"
_NEWEST = (
    "SELECT id, body FROM decisions WHERE shape_id = ? AND outcome = ? ORDER BY id DESC LIMIT 1"
)
_INSERT = (
    "INSERT INTO decisions"
    " (shape_id, outcome, body, inputs, first_at, last_at, first_job_id, last_job_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
)
_AGAIN = "UPDATE decisions SET count = count + 1, last_at = ?, last_job_id = ? WHERE id = ?"
_POINT = "UPDATE jobs SET decision_id = ? WHERE id = ?"
_PRUNE = """
DELETE FROM decisions WHERE shape_id = ?1 AND outcome = 'waiting' AND id <= (
    SELECT id FROM decisions WHERE shape_id = ?1 AND outcome = 'waiting'
    ORDER BY id DESC LIMIT 1 OFFSET ?2)"""
_FORGET = """
DELETE FROM decisions
WHERE id NOT IN (SELECT decision_id FROM jobs WHERE decision_id IS NOT NULL)
AND shape_id NOT IN (SELECT shape_id FROM jobs WHERE finished_at IS NULL)"""
_FORGET_SHAPES = "DELETE FROM shapes WHERE id NOT IN (SELECT shape_id FROM jobs)"


class DecisionReads(Queries):
    def shape(self, shape_id: ShapeId) -> Shape | None:
        row = self._one(_SHAPE, shape_id)
        return Shape(**_frozen(json.loads(row[0]))) if row is not None else None

    def decision(self, job_id: JobId) -> Decision | None:
        """The one that moved the job; for a queued job the newest that keeps its shape waiting."""
        stored = self.stored_decision(job_id)
        return stored.decision if stored is not None else None

    def stored_decision(self, job_id: JobId) -> StoredDecision | None:
        """The same, with how often and when it was made, and from what."""
        row = self._one(_OF_JOB, job_id)
        return _stored(row, job_id) if row is not None else None

    def shape_decision(self, shape_id: ShapeId) -> StoredDecision | None:
        """The newest decision about a shape."""
        row = self._one(_OF_SHAPE, shape_id)
        return _stored(row, JobId(row[8])) if row is not None else None


class DecisionWrites(Writes):
    def put_shape(self, shape_id: ShapeId, shape: Shape) -> None:
        """Write it unless it is known. Twice-safe."""
        if shape_id not in self._memo.shapes:
            self._execute(_PUT_SHAPE, (shape_id, to_json(shape)))
            self._memo.shapes.add(shape_id)

    def put_decision(
        self, decision: Decision, *, at: float = 0.0, inputs: Mapping[str, Any] | None = None
    ) -> None:
        """Keep it. An answer equal to the newest of its shape and outcome only counts that up, and
        the inputs of the first are kept: they lead to the same answer. `inputs` may hold
        dataclasses."""
        decision_id = self._same_as_newest(decision)
        if decision_id is not None:
            self._execute(_AGAIN, (at, decision.job_id, decision_id))
        else:
            decision_id = self._insert_decision(decision, at, inputs)
        if decision.outcome is not Outcome.WAITING:
            self._execute(_POINT, (decision_id, decision.job_id))

    def forget_decisions(self) -> None:
        """Delete decisions and shapes that no job needs any more; after deleting jobs."""
        self._execute(_FORGET, ())
        self._execute(_FORGET_SHAPES, ())
        self._memo.shapes.clear()
        self._memo.decisions.clear()

    def _same_as_newest(self, decision: Decision) -> int | None:
        kind = (decision.shape_id, decision.outcome)
        known = self._memo.decisions.get(kind)
        if known is not None:
            return known[0] if known[1] == _essence(decision) else None
        row = self._one(_NEWEST, decision.shape_id, decision.outcome.value)
        if row is None or row[1] != _body(decision):
            return None
        self._memo.decisions[kind] = (row[0], _essence(decision))
        return int(row[0])

    def _insert_decision(
        self, decision: Decision, at: float, inputs: Mapping[str, Any] | None
    ) -> int:
        shape_id, job_id = decision.shape_id, decision.job_id
        outcome, body = decision.outcome.value, _body(decision)
        kept = None if inputs is None else to_json(inputs)
        decision_id = self._number(_INSERT, shape_id, outcome, body, kept, at, at, job_id, job_id)
        self._memo.decisions[shape_id, decision.outcome] = (decision_id, _essence(decision))
        if decision.outcome is Outcome.WAITING:
            self._execute(_PRUNE, (shape_id, KEPT))
        return decision_id


def _essence(decision: Decision) -> tuple[object, ...]:
    return (decision.placements, decision.verdicts, decision.summary)


def _body(decision: Decision) -> str:
    return to_json(
        {
            "placements": decision.placements,
            "verdicts": decision.verdicts,
            "summary": decision.summary,
        }
    )


def _stored(row: Row, job_id: JobId) -> StoredDecision:
    shape_id, outcome, text, inputs, count, first_at, last_at, first_job, last_job = row
    body = json.loads(text)
    decision = Decision(
        job_id,
        ShapeId(shape_id),
        Outcome(outcome),
        tuple(Placement(**_frozen(placement)) for placement in body["placements"]),
        tuple(_verdict(verdict) for verdict in body["verdicts"]),
        body["summary"],
    )
    examples = (JobId(first_job),) if first_job == last_job else (JobId(first_job), JobId(last_job))
    kept = None if inputs is None else json.loads(inputs)
    return StoredDecision(decision, count, first_at, last_at, examples, kept)


def _verdict(data: Mapping[str, Any]) -> Verdict:
    checks = tuple(Check(**{**check, "fit": Fit(check["fit"])}) for check in data["checks"])
    return Verdict(**{**_frozen(data), "fit": Fit(data["fit"]), "checks": checks})


def _frozen(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in data.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
