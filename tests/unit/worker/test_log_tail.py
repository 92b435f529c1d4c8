"""However a log is read, shipped and lost on its way, the plane gets its bytes, each once."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from gpulayer.worker.log_tail import HELD_BYTES, HOLD_SECONDS, INLINE_BYTES, SHIP_BYTES, LogTail

STEPS = st.lists(
    st.sampled_from(
        ["print", "read", "ship", "ship but lose the answer", "lose it all", "forget", "wait"]
    ),
    max_size=60,
)


class Way:
    """A log at the supervisor, one `LogTail`, and what the plane has."""

    def __init__(self) -> None:
        self.tail = LogTail()
        self.written = bytearray()
        self.plane = bytearray()
        self.now = 0.0
        self.over = False

    def read(self) -> None:
        offset = self.tail.next_read()
        if offset is None:
            offset = self.tail.tailing
        if offset is not None and (data := bytes(self.written[offset : offset + 7_000])):
            self.tail.took(offset, data, self.now)
        if self.over and self.tail.read == len(self.written):
            self.tail.size = len(self.written)

    def ship(self, *, answered: bool = True, arrives: bool = True) -> None:
        shipment = self.tail.next_shipment(self.now)
        if shipment is None:
            return
        number, offset, data = shipment
        if arrives and offset <= len(self.plane):
            self.plane += data[len(self.plane) - offset :]
        if answered:
            self.tail.plane_has(number, len(self.plane))
        else:
            self.tail.in_doubt()

    def step(self, name: str) -> None:
        match name:
            case "print":
                self.written += bytes([len(self.written) % 251]) * 5_000
            case "read":
                self.read()
            case "ship":
                self.ship()
            case "ship but lose the answer":
                self.ship(answered=False)
            case "lose it all":
                self.ship(answered=False, arrives=False)
            case "forget":
                del self.plane[len(self.plane) // 2 :]
                self.tail.in_doubt()
            case "wait":
                self.now += HOLD_SECONDS


@settings(deadline=None)
@given(STEPS)
def test_every_byte_arrives_once_and_in_order(steps: list[str]) -> None:
    way = Way()
    for step in steps:
        way.step(step)
        assert way.written.startswith(way.plane)
    way.over = True
    for _ in range(200):
        way.read()
        way.ship()
        way.now += HOLD_SECONDS
        if way.tail.delivered:
            break
    assert way.tail.delivered
    whole = way.plane + way.tail.held if way.tail.inline else way.plane
    assert bytes(whole) == bytes(way.written)


def test_bytes_are_held_for_a_moment_only() -> None:
    tail = LogTail()
    tail.took(0, b"x", 10.0)
    assert tail.next_shipment(10.0 + HOLD_SECONDS / 2) is None
    assert tail.next_shipment(10.0 + HOLD_SECONDS) == (1, 0, b"x")


def test_reading_stops_while_too_much_waits() -> None:
    tail = LogTail()
    while (offset := tail.next_read()) is not None:
        tail.took(offset, b"x" * SHIP_BYTES, 0.0)
    assert HELD_BYTES <= len(tail.held) < HELD_BYTES + SHIP_BYTES


def test_a_log_is_inline_up_to_its_limit() -> None:
    for size, inline in ((INLINE_BYTES, True), (INLINE_BYTES + 1, False)):
        tail = LogTail(size=size)
        tail.took(0, b"x" * size, 0.0)
        assert tail.inline is inline
        assert (tail.next_shipment(0.0) is None) is inline


def test_an_answer_to_an_earlier_shipment_does_not_count() -> None:
    tail = LogTail()
    tail.took(0, b"abc", 0.0)
    first = tail.next_shipment(HOLD_SECONDS)
    assert first is not None
    tail.plane_has(first[0], 3)
    tail.plane_has(first[0], 0)
    assert (tail.shipped, tail.read) == (3, 3)


def test_what_the_plane_refuses_for_good_holds_nothing_up() -> None:
    tail = LogTail()
    tail.took(0, b"abc", 0.0)
    shipment = tail.next_shipment(HOLD_SECONDS)
    assert shipment is not None
    tail.plane_has(shipment[0], None)
    tail.took(3, b"def", 0.0)
    tail.size = 6
    assert tail.delivered
    assert tail.complete
