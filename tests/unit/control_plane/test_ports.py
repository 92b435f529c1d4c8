"""What is made of an answer that is not there yet."""

from __future__ import annotations

from concurrent.futures import Future

from gpulayer.control_plane.ports import then


def test_what_was_accepted_is_not_cancelled_by_who_waits_for_it() -> None:
    written: Future[int] = Future()
    told = then(written, str)
    assert not told.cancel()
    written.set_result(7)
    assert told.result(0) == "7"
