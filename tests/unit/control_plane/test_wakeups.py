"""Tickets: nothing is lost, nobody polls."""

from __future__ import annotations

import asyncio
import threading

from gpulayer.control_plane.wakeups import Wakeups


def test_a_ticket_is_woken_once_by_any_of_its_topics() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("job:a", "jobs") as ticket, wakeups.subscribe("job:b") as other:
        assert not ticket.wait(0)
        wakeups.publish("jobs")
        wakeups.publish("job:a")
        assert ticket.wait(0)
        assert not other.wait(0)


def test_a_word_between_subscribing_and_waiting_is_not_lost() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("job:a") as ticket:
        thread = threading.Thread(target=wakeups.publish, args=("job:a",))
        thread.start()
        assert ticket.wait(60)
        thread.join()


def test_asyncio_waits_on_the_same_ticket() -> None:
    wakeups = Wakeups()

    async def wait() -> bool:
        with wakeups.subscribe("job:a") as ticket:
            woken = asyncio.wrap_future(ticket.future)
            threading.Thread(target=wakeups.publish, args=("job:a",)).start()
            done, _ = await asyncio.wait((woken,), timeout=60)
            return bool(done)

    assert asyncio.run(wait())


def test_a_waiter_that_gave_up_is_forgotten() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("job:a") as ticket:
        ticket.future.cancel()
        wakeups.publish("job:a")
    ticket.close()
    with wakeups.subscribe("job:a") as again:
        wakeups.publish("job:a")
        assert again.wait(0)


def test_closing_wakes_everybody_and_whoever_comes_after() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("worker:w") as ticket:
        wakeups.close()
        assert ticket.wait(0)
    assert not wakeups.is_open
    with wakeups.subscribe("worker:w") as late:
        assert late.wait(0)
