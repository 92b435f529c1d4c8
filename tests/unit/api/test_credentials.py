"""The text of credentials: what is made is read, what is not is refused, and nothing shows it."""

from __future__ import annotations

import pickle
import traceback

import pytest

from gpulayer.api import credentials
from gpulayer.clock import ALPHABET, SystemIds
from gpulayer.contracts.principals import CredentialKind
from gpulayer.errors import RefusedError

KINDS = [kind for kind in CredentialKind if kind is not CredentialKind.JOIN]
IDS = SystemIds()


def refused(text: str, kind: CredentialKind | None = None) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        credentials.read(text, kind)
    assert caught.value.code == "unauthorized"
    shown = "".join(traceback.format_exception(caught.value))
    assert text not in shown or len(text) < 8
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_is_read(kind: CredentialKind) -> None:
    made = credentials.make(kind, IDS)
    assert credentials.read(made.reveal(), kind).presented == made.presented
    assert len(made.presented.digest) == 64
    assert made.presented.digest not in made.reveal()


@pytest.mark.parametrize("at", range(5, 76))
def test_one_wrong_character_is_told_without_a_plane(at: int) -> None:
    text = credentials.make(CredentialKind.CLIENT, IDS).reveal()
    if text[at] == "_":
        return
    other = ALPHABET[(ALPHABET.index(text[at]) + 1) % 32]
    assert "check" in refused(text[:at] + other + text[at + 1 :]).why


def test_of_another_kind_is_told_by_name() -> None:
    text = credentials.make(CredentialKind.WORKER, IDS).reveal()
    assert "a worker's session" in refused(text, CredentialKind.CLIENT).why


@pytest.mark.parametrize(
    "text", ["", "x", "gplc_", "gplc_a_b_c", "A" * 100_000, "gplx_" + "0" * 71, "gplc_\0", "é" * 76]
)
def test_what_is_no_credential_is_refused(text: str) -> None:
    refused(text)


def test_a_code_is_read_however_it_was_typed() -> None:
    code = credentials.make(CredentialKind.JOIN, IDS)
    text = code.reveal()
    typed = f"{text[:4]}-{text[4:8]} {text[8:]}".upper().replace("0", "O").replace("1", "l")
    assert credentials.read_code(typed).presented == code.presented
    for wrong in (text[:-1], text + "0", text[:-1] + "u", "", "0" * 100_000):
        with pytest.raises(RefusedError):
            credentials.read_code(wrong)


@pytest.mark.parametrize(
    "header",
    [
        "{}",
        "bearer {}",
        "Bearer  {}",
        "Bearer {} ",
        "Bearer\t{}",
        "Bearer {}\0",
        "Basic {}",
        "Bearer {0},{0}",
        "Bearer",
        "",
    ],
)
def test_a_header_is_exactly_bearer_and_a_token(header: str) -> None:
    text = credentials.make(CredentialKind.CLIENT, IDS).reveal()
    assert credentials.from_header(f"Bearer {text}").reveal() == text
    with pytest.raises(RefusedError):
        credentials.from_header(header.format(text))


def test_a_secret_is_shown_on_purpose_only() -> None:
    made = credentials.make(CredentialKind.CLIENT, IDS)
    secret = made.reveal().split("_")[2]
    for shown in (repr(made), str(made), f"{made}", repr([made]), repr(made.presented)):
        assert secret not in shown
    with pytest.raises(TypeError):
        pickle.dumps(made)
