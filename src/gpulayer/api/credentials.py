"""The text of credentials: made, read, and never shown.

    gplc_<id>_<secret>_<check>   a person's token        gplw_   a worker's session
    gpli_                        an instance's           gplj_   a code, see below

Ten, 52 and 7 characters of `clock.ALPHABET`: the secret is 260 random bits, the check is the
CRC-32 of all before it, so that a slip is told without a plane and a scanner of leaked secrets
knows one when it sees one. A code is what stands in a `gl://` line: sixteen characters, of which
the first four name it and the others are its secret.

Plain SHA-256 is enough where the secret is random: there is nothing to guess faster.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from gpulayer.clock import ALPHABET, Ids
from gpulayer.contracts.principals import CredentialKind, Presented
from gpulayer.errors import RefusedError

ID, SECRET, CHECK = 10, 52, 7
CODE_ID, CODE = 4, 16

PREFIXES = {
    "gplc": CredentialKind.CLIENT,
    "gplj": CredentialKind.JOIN,
    "gplw": CredentialKind.WORKER,
    "gpli": CredentialKind.INSTANCE,
}
_PREFIX_OF = {kind: prefix for prefix, kind in PREFIXES.items()}
NAMES = {
    CredentialKind.CLIENT: "a person's token",
    CredentialKind.JOIN: "a code for `gpulayer join` or `gpulayer login`",
    CredentialKind.WORKER: "a worker's session",
    CredentialKind.INSTANCE: "an instance's token",
}
_FORM = re.compile(
    rf"(gpl[cwi])_([{ALPHABET}]{{{ID}}})_([{ALPHABET}]{{{SECRET}}})_([{ALPHABET}]{{{CHECK}}})"
)
_MISREAD = str.maketrans("oilOIL", "011011", "- ")
LONGEST = 128
"""Characters; more is no credential, and is not hashed."""


class Secret:
    """A credential's text, which is shown on purpose only: `reveal`."""

    __slots__ = ("_text", "presented")

    def __init__(self, text: str, presented: Presented) -> None:
        self._text = text
        self.presented = presented

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self.presented.kind} {self.presented.id}>"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def make(kind: CredentialKind, ids: Ids) -> Secret:
    """A new one, which nobody else will be given."""
    if kind is CredentialKind.JOIN:
        return read_code(ids.token(CODE))
    body = f"{_PREFIX_OF[kind]}_{ids.token(ID)}_{ids.token(SECRET)}"
    return read(f"{body}_{_check(body)}", kind)


def read(text: str, kind: CredentialKind | None = None) -> Secret:
    """What a text is. Raises `unauthorized` for what is not a credential, or one of another kind;
    the message never quotes it."""
    found = _FORM.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise _refused("it is not the text of a token")
    prefix, identity, _, check = found.groups()
    if check != _check(text[: -CHECK - 1]):
        raise _refused("a character of it is wrong or missing (its check does not fit)")
    if kind is not None and PREFIXES[prefix] is not kind:
        raise _refused(f"it is {NAMES[PREFIXES[prefix]]}, and {NAMES[kind]} is needed")
    return Secret(text, Presented(PREFIXES[prefix], identity, _digest(text)))


def read_code(text: str) -> Secret:
    """A code as it was pasted or typed: case, hyphens, and letters that look like digits are
    forgiven. Raises `unauthorized`."""
    plain = text[:LONGEST].translate(_MISREAD).lower()
    if len(plain) != CODE or set(plain) - set(ALPHABET):
        raise _refused(f"a code has {CODE} letters and digits")
    return Secret(plain, Presented(CredentialKind.JOIN, plain[:CODE_ID], _digest(plain)))


def read_way_in(text: str) -> Secret:
    """What is traded for a credential: a code, or an instance's token."""
    if text.startswith(_PREFIX_OF[CredentialKind.INSTANCE]):
        return read(text, CredentialKind.INSTANCE)
    return read_code(text)


def from_header(value: str) -> Secret:
    """Of an `Authorization` header (RFC 6750): exactly `Bearer `, and a token."""
    scheme, _, text = value.partition(" ")
    if scheme != "Bearer":
        raise _refused("the header is not `Authorization: Bearer TOKEN`")
    return read(text)


def link(front: Mapping[str, Any], code: Secret) -> str:
    """The one argument of `join` and `login`. `front`: the address and fingerprint of a server."""
    if front["fingerprint"] is None:
        return f"http://{front['address']}/{code.reveal()}"
    return f"gl://{front['address']}/{code.reveal()}-sha256.{front['fingerprint']}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _check(body: str) -> str:
    number, letters = crc32(body.encode()), ""
    for _ in range(CHECK):
        number, digit = divmod(number, 32)
        letters += ALPHABET[digit]
    return letters


def _refused(why: str) -> RefusedError:
    return RefusedError(
        "unauthorized",
        "the plane cannot take this credential",
        why=why,
        hint="gpulayer help unauthorized",
    )
