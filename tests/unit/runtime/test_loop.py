"""The event loop: descriptors, timers and signals, in one thread and without polling."""

from __future__ import annotations

import os
import signal

import pytest

from gpulayer.runtime.loop import READ, Loop


@pytest.fixture
def loop():
    errors = []
    before = {n: signal.getsignal(n) for n in (signal.SIGUSR1, signal.SIGUSR2)}
    made = Loop(errors.append)
    made.errors = errors
    yield made
    signal.set_wakeup_fd(-1)
    for signum, handler in before.items():
        signal.signal(signum, handler)


def test_timers_run_in_their_order_and_a_cancelled_one_does_not(loop):
    seen = []
    loop.after(0.002, lambda: seen.append("second"))
    loop.after(0.001, lambda: seen.append("first"))
    cancelled = loop.after(0.0015, lambda: seen.append("never"))
    loop.after(0.003, loop.stop)
    cancelled.cancel()
    cancelled.cancel()
    loop.run()
    assert seen == ["first", "second"]


def test_a_signal_is_told_in_the_loop_once_however_often_it_came(loop):
    seen = []

    def told():
        seen.append(1)
        loop.stop()

    loop.on_signal(signal.SIGUSR1, told)
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGUSR1)
    loop.run()
    assert seen == [1]


def test_an_error_in_a_call_is_told_and_the_loop_goes_on(loop):
    reader, writer = os.pipe()
    os.write(writer, b"x")

    def fail():
        os.read(reader, 1)
        loop.after(0, loop.stop)
        raise ValueError("of a call")

    loop.watch(reader, READ, fail)
    loop.run()
    assert [str(error) for error in loop.errors] == ["of a call"]
    loop.unwatch(reader)
    loop.unwatch(reader)
    for fd in (reader, writer):
        os.close(fd)
