"""Trading the code of a `gl://` line for a credential of one's own, once.

The secret is made here and written down before it is sent, so that whoever loses the answer asks
again with the same one and is told the same. Nothing is sent before the server's certificate is
the one of the line.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from gpulayer.api import credentials
from gpulayer.api.endpoints import Address, Far
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemIds
from gpulayer.contracts.principals import CredentialKind
from gpulayer.errors import UsageError
from gpulayer.sdk.servers import Server


def new_secret(kind: CredentialKind) -> str:
    return credentials.make(kind, SystemIds()).reveal()


def code_of(address: Address, verb: str) -> str:
    """The one-time code of the line. UsageError where it carries none."""
    if address.code is None:
        raise UsageError(
            "usage",
            "the line carries no one-time code",
            why=f"`gpulayer invite` on the server prints a whole line for `gpulayer {verb}`",
            hint="gpulayer invite" if verb == "join" else "gpulayer invite --client",
        )
    return address.code


def invite_of(code: str) -> str:
    """Names the invitation without telling its code."""
    return sha256(code.encode()).hexdigest()[:16]


def enrol(
    endpoint: Far,
    code: str,
    secret: str,
    name: str,
    *,
    may_rename: bool = False,
    previous: str | None = None,
) -> dict[str, Any]:
    """What the server knows of the new credential. Safe to repeat with the same secret.

    `previous`: the session that this worker had, which proves that the name is its own. Raises
    `unauthorized` for a code that is used, expired or unknown, and `name-taken`.
    """
    wire: Wire = Server("", endpoint, "").wire()
    body: dict[str, Any] = {"code": code, "token": secret, "name": name}
    if may_rename:
        body["may_rename"] = True
    if previous is not None:
        body["previous"] = previous
    try:
        return dict(wire.call("POST", "/v1/enrol", body))
    finally:
        wire.close()
