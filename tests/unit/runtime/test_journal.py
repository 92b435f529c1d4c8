"""The journal, the birth file and the lock: what outlives a supervisor."""

from __future__ import annotations

import json
import os

from gpulayer.runtime import homelock, journal
from gpulayer.runtime.journal import COMPACT_BYTES, Birth, Journal


def intent(number, **more):
    return {"task_id": f"task{number}", "fence": number, **more}


def test_a_new_journal_knows_what_was_begun_and_not_forgotten(tmp_path):
    path = str(tmp_path / "journal")
    first = Journal(path)
    for number in range(3):
        first.intent(intent(number))
    first.forget("task1")
    first.forget("task1")
    first.close()
    second = Journal(path)
    assert list(second.tasks) == ["task0", "task2"] == list(journal.read(path))
    second.close()


def test_a_torn_last_line_is_as_if_never_written(tmp_path):
    path = tmp_path / "journal"
    first = Journal(str(path))
    first.intent(intent(1))
    first.close()
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps({"intent": intent(2)}).encode()[:-3])
    second = Journal(str(path))
    assert list(second.tasks) == ["task1"]
    second.intent(intent(3))
    second.close()
    assert list(journal.read(str(path))) == ["task1", "task3"]


def test_a_journal_stays_small(tmp_path):
    path = tmp_path / "journal"
    log = Journal(str(path))
    log.intent(intent(0))
    for number in range(1, 40):
        log.intent(intent(number, note="x" * 100_000))
        log.forget(f"task{number}")
    log.close()
    assert path.stat().st_size < 2 * COMPACT_BYTES
    assert list(journal.read(str(path))) == ["task0"]


def test_what_is_begun_in_the_moment_in_which_it_is_made_short_is_in_it(tmp_path):
    path = str(tmp_path / "journal")
    log = Journal(path)
    for number in range(40):
        log.intent(intent(number, note="x" * 100_000))
        assert list(journal.read(path)) == list(log.tasks)
    log.close()


def test_what_is_forgotten_costs_no_write_of_its_own(tmp_path):
    path = tmp_path / "journal"
    log = Journal(str(path))
    log.intent(intent(1))
    size = path.stat().st_size
    log.forget("task1")
    assert path.stat().st_size == size
    log.intent(intent(2))
    assert list(journal.read(str(path))) == ["task2"]
    log.close()


def test_an_end_is_read_whole_or_not_at_all(tmp_path):
    path = str(tmp_path / "birth")
    birth = Birth(path)
    assert birth.exit() is None
    birth.record({"outcome": "failed", "exit_code": 7})
    assert Birth(path).exit() == {"outcome": "failed", "exit_code": 7}
    whole = (tmp_path / "birth").read_bytes()
    (tmp_path / "birth").write_bytes(whole[:-1])
    assert birth.exit() is None
    birth.close()
    birth.close()


def test_a_birth_file_has_one_holder(tmp_path):
    first, second = Birth(str(tmp_path / "birth")), Birth(str(tmp_path / "birth"))
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()
    second.close()


def test_a_home_has_one_supervisor_and_is_not_made_by_it(tmp_path):
    path = str(tmp_path / "sup" / "lock")
    assert homelock.take(path) is None
    os.mkdir(tmp_path / "sup")
    lock = homelock.take(path)
    assert lock is not None
    assert homelock.take(path) is None
    assert lock.is_in_place()
    os.rename(tmp_path / "sup", tmp_path / "gone")
    assert not lock.is_in_place()
    os.mkdir(tmp_path / "sup")
    second = homelock.take(path)
    assert second is not None
    assert not lock.is_in_place()
    for held in (lock, second):
        held.release()
