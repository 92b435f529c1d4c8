"""Jobs come back as they went in, and are found by every name that a person may use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpulayer.contracts.changes import Changes, JobUpdate
from gpulayer.contracts.ids import PREPARES, EnvelopeId, JobId, ShapeId
from gpulayer.contracts.states import JobState, Reason
from gpulayer.storage import Store
from tests.support.records import a_job, apply, end, job_of, place, run_through, submit


def test_a_job_comes_back_as_it_went_in(store: Store):
    job = a_job(
        "näme-\u2603-1",
        spec={"command": ["echo", "caf\udce9", "☃"], "env": {"A": ""}, "n": [1, 2.5, None, True]},
        priority=-3,
        max_attempts=4,
        retry_on=("worker_lost", "exit:17"),
        fail_if_unschedulable=True,
        message="needs 80 GB, has 24 GB",
        not_before=12.5,
        cancel_grace=2.0,
        envelope_id=EnvelopeId("e" * 64),
        origin={"cwd": "/home/a", "session": "s1", "tty": True},
        idempotency_key="key-1",
        request_digest="d" * 64,
        retry_of=JobId("older-1"),
    )
    (stored,) = submit(store, job)
    assert stored == replace(job, seq=stored.seq)
    assert stored.seq > 0


def test_text_that_is_not_unicode_is_shown_and_not_refused(store: Store):
    (stored,) = submit(store, a_job(message="no file caf\udce9"))
    assert stored.message == "no file caf\\udce9"


def test_what_is_not_there_is_none(store: Store):
    with store.read() as reader:
        assert reader.job(JobId("nobody-1")) is None
        assert reader.job_by_key("nothing") is None
        assert reader.find_jobs("nobody") == []
        assert reader.find_jobs("last") == []
        assert reader.find_jobs("") == []
        assert reader.jobs() == []


def test_jobs_are_numbered_in_the_order_of_submission_for_ever(store: Store):
    first, second = submit(store, a_job("b-1"), a_job("a-1"))
    assert first.seq < second.seq
    run_through(store, "c-1")
    third = job_of(store, "c-1")
    assert store.write(lambda tx: tx.delete_job(third.id)).result()
    (fourth,) = submit(store, a_job("d-1"))
    assert fourth.seq > third.seq


def test_a_listing_is_newest_first_by_state_name_and_page(store: Store):
    submit(store, *(a_job(f"{name}-{n}") for n in range(3) for name in ("eval", "train")))
    place(store, "train-0")
    with store.read() as reader:
        every = [job.id for job in reader.jobs()]
        assert every == ["train-2", "eval-2", "train-1", "eval-1", "train-0", "eval-0"]
        assert [job.id for job in reader.jobs(name="eval", limit=2)] == ["eval-2", "eval-1"]
        assert [job.id for job in reader.jobs(states=[JobState.SCHEDULED])] == ["train-0"]
        assert reader.jobs(states=[]) == []
        assert reader.jobs(limit=0) == []
        page = reader.jobs(limit=4)
        rest = reader.jobs(after_seq=page[-1].seq)
        assert [job.id for job in page + rest] == every


def test_a_selector_is_an_id_a_prefix_a_name_or_last(store: Store):
    submit(
        store,
        a_job("train-7f3a", origin={"session": "mine"}),
        a_job("train-8b11", origin={"session": "mine"}),
        a_job("eval-1", origin={"session": "theirs"}),
        a_job("trainer-1"),
    )
    with store.read() as reader:

        def found(selector: str, session: str | None = None) -> list[str]:
            return [job.id for job in reader.find_jobs(selector, session=session)]

        assert found("train-7f3a") == ["train-7f3a"]
        assert found("train-7") == ["train-7f3a"]
        assert found("train") == ["train-8b11"]
        assert found("train-") == ["train-8b11", "train-7f3a"]
        assert found("last") == ["trainer-1"]
        assert found("last", "mine") == ["train-8b11"]
        assert found("last", "nobody") == []
        for hostile in ("%", "_", "*", "' OR 1 --", "\x00", "train-\U0010ffff"):
            assert found(hostile) == []


def test_one_key_is_one_job(store: Store):
    submit(store, a_job("train-1", idempotency_key="k", request_digest="one"))
    with store.read() as reader:
        known = reader.job_by_key("k")
    assert known is not None
    assert (known.id, known.request_digest) == ("train-1", "one")
    with pytest.raises(Exception, match="idempotency_key"):
        apply(store, Changes(jobs=(a_job("train-2", idempotency_key="k"),)))


def test_the_queue_gives_the_first_of_each_shape_by_priority_then_age(store: Store):
    submit(
        store,
        a_job("a-1", shape_id=ShapeId("big")),
        a_job("a-2", shape_id=ShapeId("small")),
        a_job("a-3", shape_id=ShapeId("big"), priority=5),
        a_job("a-4", shape_id=ShapeId("big"), priority=5, not_before=100.0),
        a_job("a-5", shape_id=ShapeId("small"), fail_if_unschedulable=True),
        a_job("a-6", shape_id=ShapeId("other"), priority=-1),
        a_job("a-7", shape_id=ShapeId("other"), priority=9),
    )
    place(store, "a-7")
    with store.read() as reader:
        heads = reader.ready_heads(50.0, per_shape=2)
        assert [head.job_id for head in heads] == ["a-3", "a-1", "a-2", "a-5", "a-6"]
        assert [head.fail_if_unschedulable for head in heads] == [False] * 3 + [True, False]
        later = [head.job_id for head in reader.ready_heads(100.0, per_shape=1)]
        assert later == ["a-3", "a-2", "a-6"]
        assert [job.id for job in reader.delayed(50.0)] == ["a-4"]
        assert reader.delayed(100.0) == []


def test_counts_follow_every_move(store: Store):
    submit(store, *(a_job(f"a-{n}") for n in range(3)))
    place(store, "a-0")
    run_through(store, "b-1", code=7)
    with store.read() as reader:
        assert reader.queued_count() == 2
        assert reader.unfinished() == 3
        assert reader.counts()[JobState.FAILED] == 1


def test_counts_inside_a_transaction_know_what_it_wrote(store: Store):
    def run(tx):
        assert tx.apply(Changes(jobs=(a_job("a-1"), a_job("a-2"))))
        return tx.queued_count(), tx.unfinished(), tx.counts()[JobState.QUEUED]

    assert store.write(run).result() == (2, 2, 2)


def test_envelopes_are_in_use_until_their_job_ends(store: Store):
    submit(
        store,
        a_job("a-1", envelope_id=EnvelopeId("one")),
        a_job("a-2", envelope_id=EnvelopeId("two")),
        a_job("a-3", envelope_id=EnvelopeId("two")),
        a_job("a-4"),
    )
    with store.read() as reader:
        assert reader.live_envelopes() == {"one", "two"}
    values = {"state": JobState.CANCELLED, "reason": Reason.USER, "finished_at": 5.0}
    assert apply(store, Changes((), (JobUpdate(JobId("a-1"), JobState.QUEUED, 0, values),)))
    with store.read() as reader:
        assert reader.live_envelopes() == {"two"}


def test_a_job_is_a_lender_while_a_job_from_inside_of_it_lives(store: Store):
    submit(store, a_job("outer-1"), a_job("inner-1", origin={"parent_job": "outer-1"}))
    with store.read() as reader:
        assert reader.lenders() == {"outer-1"}
    values = {"state": JobState.CANCELLED, "reason": Reason.USER, "finished_at": 5.0}
    assert apply(store, Changes((), (JobUpdate(JobId("inner-1"), JobState.QUEUED, 0, values),)))
    with store.read() as reader:
        assert reader.lenders() == frozenset()


def test_an_ended_job_goes_with_all_that_was_its_own(store: Store):
    task = run_through(store, "old-1", at=10.0)
    run_through(store, "new-1", at=20.0)
    with store.read() as reader:
        assert reader.ended_before(20.0) == ["old-1"]
        assert reader.ended_before(21.0, limit=1) == ["old-1"]
    assert store.write(lambda tx: tx.delete_job(JobId("old-1"))).result()
    assert not store.write(lambda tx: tx.delete_job(JobId("old-1"))).result()
    with store.read() as reader:
        assert reader.job(JobId("old-1")) is None
        assert reader.task(task.id) is None
        assert reader.tasks(JobId("old-1")) == []
        assert reader.events(JobId("old-1")) == []
        assert reader.results(JobId("old-1")) == []
        assert len(reader.events(JobId("new-1"))) == 3


def test_a_job_that_has_not_ended_is_never_deleted(store: Store):
    submit(store, a_job("a-1"))
    place(store, "a-1")
    assert not store.write(lambda tx: tx.delete_job(JobId("a-1"))).result()
    assert job_of(store, "a-1").state is JobState.SCHEDULED


def test_what_only_prepared_an_environment_is_no_work_and_never_the_last(store: Store):
    """It is listed while it lives, and found by its name."""
    run_through(store, "train-1")
    submit(store, a_job("env-prepare-1", origin={"session": PREPARES}, owner="ann"))
    with store.read() as reader:
        assert [job.id for job in reader.jobs(is_work=True)] == ["env-prepare-1", "train-1"]
    end(store, place(store, "env-prepare-1"))
    with store.read() as reader:
        assert [job.id for job in reader.jobs(is_work=True)] == ["train-1"]
        assert [job.id for job in reader.jobs()] == ["env-prepare-1", "train-1"]
        assert [job.id for job in reader.find_jobs("last")] == ["train-1"]
        assert reader.find_jobs("last", owner="ann") == []
        assert [job.id for job in reader.find_jobs("env-prepare")] == ["env-prepare-1"]
