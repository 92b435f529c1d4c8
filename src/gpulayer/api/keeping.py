"""The routes about what workers keep: translation alone, as in `handlers`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpulayer.api.answers import PARK_SECONDS, Call, Parked
from gpulayer.contracts.fitting import fitted
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.errors import UsageError

ANSWER_SECONDS = 20.0
"""How long workers may take, unless the caller says otherwise."""
_KINDS = ("environments", "artifacts", "workspaces", "images")
_REMOVAL = {"keys": "tuple[str, ...]", "unused": "bool", "workers": "tuple[str, ...]"}


class Keeping:
    """Part of `handlers.Handlers`."""

    _plane: ControlPlane

    def caches(self, call: Call) -> Any:
        """`what`: a kind, or several with commas between them; all if not said."""
        what = [kind for kind in call.query.get("what", "").split(",") if kind]
        if strange := [kind for kind in what if kind not in _KINDS]:
            raise UsageError(
                "usage", f"workers keep no {strange[0]!r}", why=f"they keep {', '.join(_KINDS)}"
            )
        seconds = call.seconds("wait", PARK_SECONDS) or ANSWER_SECONDS
        return self._of_workers("caches", {"what": what}, (), seconds)

    def remove_environments(self, call: Call) -> Any:
        """Of all workers, or those that `workers` names. What a job uses stays, and is told."""
        body = fitted("a removal", call.body, _REMOVAL)
        keys, unused = list(body.get("keys") or ()), bool(body.get("unused"))
        if bool(keys) is unused:
            raise UsageError("usage", "name environments by their keys, or say `unused`: not both")
        wish = {"keys": keys, "unused": unused}
        only = body.get("workers") or ()
        return self._of_workers("remove_environments", wish, only, PARK_SECONDS)

    def _of_workers(
        self, verb: str, body: Mapping[str, Any], only: Collection[str], seconds: float
    ) -> Parked:
        asked = self._plane.send_errand(verb, body, only)

        def look(last: bool) -> Any:
            told = self._plane.errand_answers(asked, last=last)
            return None if told is None else {"workers": told}

        return Parked((asked.topic,), seconds, look)
