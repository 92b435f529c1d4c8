"""How one task's log travels: read from the supervisor, held for a moment, shipped to the plane.

    segment   0 ............ shipped ............ read ............ size
                 plane has it         `held` here      at the supervisor

A short log is not shipped at all: it goes with the report of the task's end, so that a small
command costs one exchange. That is why bytes are held for `HOLD_SECONDS` before they travel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

INLINE_BYTES = 32 * 1024
"""A whole log up to this size travels inside the report of the end."""

HOLD_SECONDS = 0.05
SHIP_BYTES = 1024 * 1024
"""Most bytes of one shipment."""

HELD_BYTES = 2 * SHIP_BYTES
"""Reading stops while this much waits to be shipped, so memory is flat whatever a job prints."""


@dataclass(slots=True)
class LogTail:
    shipped: int = 0
    held: bytearray = field(default_factory=bytearray)
    held_since: float = 0.0
    size: int | None = None
    """Of the whole segment, once the task has ended."""
    in_step: bool = True
    """Whether `shipped` is what the plane has; False after anything that leaves it in doubt."""
    wanted: bool = True
    """False: the plane refused it for good, and nothing more of it is shipped."""
    tailing: int | None = None
    """Offset of the read that is parked at the supervisor."""
    shipping: int = 0
    """Number of the shipment under way; 0: none."""
    shipments: int = 0

    @property
    def read(self) -> int:
        """Offset up to which bytes have come from the supervisor."""
        return self.shipped + len(self.held)

    @property
    def complete(self) -> bool:
        """Nothing is left to read."""
        return self.size is not None and self.read >= self.size

    @property
    def inline(self) -> bool:
        """Whether the log is so short that it travels with the report of the end."""
        return self.complete and self.shipped == 0 and len(self.held) <= INLINE_BYTES

    @property
    def delivered(self) -> bool:
        """Whether the end may be reported: the plane has it all, or will with that report."""
        if not self.wanted:
            return True
        return self.in_step and self.complete and (not self.held or self.inline)

    def next_read(self) -> int | None:
        """The offset to read from now, if any."""
        if self.complete or len(self.held) >= HELD_BYTES or self.tailing == self.read:
            return None
        if not self.in_step and self.tailing is None and self.read == 0:
            return None  # what the plane already has need not be read again
        self.tailing = self.read
        return self.tailing

    def took(self, offset: int, data: bytes, now: float) -> bool:
        """Take bytes that were read. False: they are not the next ones and were left."""
        if self.tailing == offset:
            self.tailing = None
        if offset != self.read:
            return False
        if not self.wanted:
            self.shipped += len(data)
        elif data:
            if not self.held:
                self.held_since = now
            self.held += data
        return True

    def next_shipment(self, now: float) -> tuple[int, int, bytes] | None:
        """(number, offset, bytes) to ship now, if any. No bytes: only ask what the plane has."""
        if self.shipping or not self.wanted:
            return None
        if self.in_step:
            if not self.held:
                return None
            due = self.complete or len(self.held) >= SHIP_BYTES // 4 or now >= self.due
            if not due or self.inline:
                return None
        self.shipments += 1
        self.shipping = self.shipments
        data = bytes(self.held[:SHIP_BYTES]) if self.in_step else b""
        return self.shipping, self.shipped, data

    def plane_has(self, number: int, size: int | None) -> None:
        """Go on from what the plane says that it has, in answer to that shipment and to no other.
        None: it wants no more. Less than before: it has lost some, which is read again."""
        if number != self.shipping:
            return
        self.shipping = 0
        if size is None:
            self.wanted = False
            self.shipped, self.held = self.read, bytearray()
            return
        self.in_step = True
        if self.shipped <= size <= self.read:
            del self.held[: size - self.shipped]
        else:
            self.held.clear()
        self.shipped = size

    def in_doubt(self) -> None:
        """The plane may have less than it said, or more: it will be asked."""
        self.in_step, self.shipping = False, 0

    @property
    def waits(self) -> bool:
        """Whether bytes are held that must travel at `due`."""
        held = bool(self.held) and self.in_step and not self.complete
        return held and not self.shipping and self.wanted

    @property
    def due(self) -> float:
        """When held bytes must travel, on the clock that `took` was given."""
        return self.held_since + HOLD_SECONDS
