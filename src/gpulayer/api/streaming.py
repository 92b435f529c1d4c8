"""The routes of streams into running jobs: translation alone, as in `handlers`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gpulayer.api.answers import Call
from gpulayer.api.meeting import VISITOR, WORKER
from gpulayer.contracts.fitting import fitted
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.stream_rules import Wish
from gpulayer.errors import UsageError

_WISH = {
    **dict.fromkeys(("stream", "kind", "forward"), "str"),
    "argv": "tuple[str, ...]",
    **dict.fromkeys(("node", "port"), "int"),
    "terminal": "Mapping[str, Any] | None",
    "set": "Mapping[str, str]",
}
_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")


@dataclass(frozen=True, slots=True)
class Attending:
    """An answer that is one side of a stream: its body is not read before."""

    stream: str
    side: str


class Streaming:
    """Part of `handlers.Handlers`."""

    _plane: ControlPlane

    def open_stream(self, call: Call) -> Any:
        body = dict(fitted("a stream", call.body, _WISH))
        stream = str(body.pop("stream", ""))
        if _ID.fullmatch(stream) is None:
            raise UsageError("usage", "a stream has an id of 16 to 64 letters and digits")
        known = {key: value for key, value in body.items() if key in _WISH}
        wish = Wish(**{"kind": "", **known, "argv": tuple(body.get("argv") or ())})
        return self._plane.streams.open(call.path["selector"], stream, wish, call.principal)

    def join_stream(self, call: Call) -> Attending:
        return Attending(call.path["stream"], VISITOR)

    def serve_stream(self, call: Call) -> Attending:
        return Attending(call.path["stream"], WORKER)
