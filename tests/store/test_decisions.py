"""Decisions are kept once however often they are repeated, with what they were made of."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from gpulayer.contracts.decision import (
    Check,
    Decision,
    Fit,
    Outcome,
    Pending,
    Placement,
    Shape,
    Verdict,
)
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId
from gpulayer.errors import GPULayerError
from gpulayer.storage import Store
from gpulayer.storage.decisions import KEPT
from tests.support.records import a_job, a_worker_row, end, job_of, place, run_through, submit

SHAPE = ShapeId("shape-1")


def waiting(job_id: str = "train-1", have: str = "3 free") -> Decision:
    check = Check("gpus", Fit.BUSY, "4 GPUs", have, gap=0.25)
    others = (WorkerId("lab-2"),)
    verdict = Verdict(WorkerId("lab-1"), "lab-1", Fit.BUSY, (check,), count=2, examples=others)
    return Decision(JobId(job_id), SHAPE, Outcome.WAITING, (), (verdict,), f"{have} of 4")


def placed(job_id: str = "train-1") -> Decision:
    placement = Placement(WorkerId("lab-1"), 0, 1.0, 0.0, ("GPU-a",))
    return replace(
        waiting(job_id), outcome=Outcome.PLACED, placements=(placement,), summary="placed"
    )


def put(store: Store, decision: Decision, at: float = 0.0, **kw: object) -> None:
    store.write(lambda tx: tx.put_decision(decision, at=at, **kw)).result()


def test_a_shape_comes_back_as_it_went_in(store: Store):
    shape = Shape(
        accelerator="gpu", gpus=4, gpu_models=("a100",), frameworks=(("torch", ">=2"),), labels=()
    )
    for _ in range(2):
        store.write(lambda tx: tx.put_shape(SHAPE, shape)).result()
    with store.read() as reader:
        assert reader.shape(SHAPE) == shape
        assert reader.shape(ShapeId("other")) is None


def test_equal_answers_in_a_row_are_one_with_a_count(store: Store):
    submit(store, a_job("train-1"), a_job("train-2"))
    for n in range(5):
        put(store, waiting("train-1" if n == 0 else "train-2"), at=float(n))
    with store.read() as reader:
        kept = reader.stored_decision(JobId("train-1"))
        assert kept is not None
        assert (kept.count, kept.first_at, kept.last_at) == (5, 0.0, 4.0)
        assert kept.examples == ("train-1", "train-2")
        assert kept.decision == waiting("train-1")
        assert reader.decision(JobId("train-2")) == waiting("train-2")


def test_another_answer_is_kept_beside_the_old_one(store: Store):
    submit(store, a_job())
    put(store, waiting(have="3 free"))
    put(store, waiting(have="2 free"))
    put(store, waiting(have="3 free"))
    with store.read() as reader:
        kept = reader.stored_decision(JobId("train-1"))
    assert kept is not None
    assert (kept.count, kept.decision) == (1, waiting(have="3 free"))


def test_a_job_keeps_the_answer_that_moved_it(store: Store):
    submit(store, a_job("train-1"), a_job("train-2"))
    put(store, waiting("train-1"))
    put(store, placed("train-1"))
    place(store, "train-1")
    put(store, waiting("train-2", have="0 free"))
    with store.read() as reader:
        assert reader.decision(JobId("train-1")) == placed("train-1")
        assert reader.decision(JobId("train-2")) == waiting("train-2", have="0 free")
        newest = reader.shape_decision(SHAPE)
    assert newest is not None
    assert newest.decision.outcome is Outcome.WAITING


def test_a_waiting_job_is_told_why_it_waits_after_others_of_its_shape_were_placed(store: Store):
    submit(store, a_job("train-1"), a_job("train-2"), a_job("train-3"))
    put(store, waiting("train-3"))
    for name in ("train-1", "train-2"):
        put(store, placed(name))
        place(store, name)
    with store.read() as reader:
        assert reader.decision(JobId("train-3")) == waiting("train-3")
        kept = reader.stored_decision(JobId("train-2"))
    assert kept is not None
    assert (kept.count, kept.decision) == (2, placed("train-2"))


def test_a_decision_keeps_what_it_was_made_from(store: Store):
    submit(store, a_job())
    pending = Pending(JobId("train-1"), SHAPE, 0, 1)
    put(store, waiting(), inputs={"queue": [pending], "shape": Shape(gpus=4)})
    put(store, waiting(), inputs={"queue": []})
    with store.read() as reader:
        kept = reader.stored_decision(JobId("train-1"))
    assert kept is not None
    assert kept.inputs is not None
    assert kept.inputs["queue"] == [asdict(pending)]
    assert Shape(**{k: _tuple(v) for k, v in kept.inputs["shape"].items()}) == Shape(gpus=4)


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def test_answers_that_were_overtaken_do_not_pile_up(store: Store):
    submit(store, a_job())
    for n in range(KEPT * 3):
        put(store, waiting(have=f"{n} free"))
    rows = store.write(lambda tx: tx._number("SELECT count(*) FROM decisions")).result()
    assert rows == KEPT


def test_nobody_has_decided_yet(store: Store):
    submit(store, a_job())
    with store.read() as reader:
        assert reader.decision(JobId("train-1")) is None
        assert reader.decision(JobId("nobody-1")) is None
        assert reader.shape_decision(SHAPE) is None


def test_a_rolled_back_answer_is_not_counted_on(store: Store):
    submit(store, a_job())

    def fails(tx):
        tx.put_shape(SHAPE, Shape())
        tx.put_decision(waiting())
        raise KeyError

    with pytest.raises(KeyError):
        store.write(fails).result()
    put(store, waiting())
    store.write(lambda tx: tx.put_shape(SHAPE, Shape())).result()
    with store.read() as reader:
        assert reader.decision(JobId("train-1")) == waiting()
        assert reader.shape(SHAPE) == Shape()


def test_decisions_go_when_no_job_needs_them(store: Store):
    store.write(lambda tx: tx.put_shape(SHAPE, Shape())).result()
    submit(store, a_job("train-1"))
    put(store, waiting())
    put(store, placed())
    end(store, place(store, "train-1"))
    store.write(lambda tx: tx.forget_decisions()).result()
    with store.read() as reader:
        assert reader.decision(JobId("train-1")) == placed()
        assert reader.shape(SHAPE) is not None
    store.write(lambda tx: tx.delete_job(JobId("train-1"))).result()
    store.write(lambda tx: tx.forget_decisions()).result()
    with store.read() as reader:
        assert reader.shape_decision(SHAPE) is None
        assert reader.shape(SHAPE) is None


def test_workers_are_written_and_grow(store: Store):
    for worker in (a_worker_row("b"), a_worker_row("a", labels={"zone": "x"}, draining=True)):
        store.write(lambda tx, w=worker: tx.put_worker(w)).result()
    newer = a_worker_row("b", incarnation=2, seen_at=5.0, capabilities={"gpus": None})
    store.write(lambda tx: tx.put_worker(newer)).result()
    with pytest.raises(GPULayerError, match="never goes back"):
        store.write(lambda tx: tx.put_worker(a_worker_row("b"))).result()
    with store.read() as reader:
        assert [worker.id for worker in reader.workers()] == ["a", "b"]
        stored = reader.worker(WorkerId("b"))
        assert stored is not None
        assert replace(stored, turn=0) == newer
        assert reader.worker(WorkerId("c")) is None


def test_facts_about_the_store_are_kept(store: Store):
    run_through(store, "train-1")
    store.write(lambda tx: tx.set_meta("plane", "one")).result()
    store.write(lambda tx: tx.set_meta("plane", "two")).result()
    with store.read() as reader:
        assert (reader.meta("plane"), reader.meta("nothing")) == ("two", None)
    assert job_of(store, "train-1").version == 2
