"""Guesses are slowed down by address; who has a good token never notices."""

from __future__ import annotations

import pytest

from gpulayer.api.attempts import REFUSALS, WINDOW_SECONDS, Attempts
from gpulayer.contracts.principals import CredentialKind
from gpulayer.errors import GPULayerError
from tests.support.clocks import FakeClock
from tests.support.env import Env
from tests.support.knocking import Knocking


def test_past_the_limit_a_refusal_is_another_one_until_the_minute_is_over() -> None:
    clock = FakeClock()
    attempts = Attempts(clock)
    for _ in range(REFUSALS):
        attempts.count("a")
    with pytest.raises(GPULayerError, match="within a minute"):
        attempts.count("a")
    attempts.count("b")
    clock.advance(WINDOW_SECONDS)
    attempts.count("a")


def test_a_good_token_is_taken_beside_any_number_of_bad_ones() -> None:
    with Env() as env:
        door = Knocking(env)
        told = [door.ask("GET", "/v1/jobs", token="gplc_guess")[0] for _ in range(REFUSALS + 1)]
        assert (told[0], told[-2], told[-1]) == (401, 401, 429)
        assert door.ask("GET", "/v1/jobs", token=door.token("viewer"))[0] == 200
        door.close()


def test_a_guessed_code_is_noted_only_so_often() -> None:
    with Env() as env:
        door = Knocking(env)
        code = door.code()
        wish = {"token": door.made(CredentialKind.WORKER).reveal(), "name": "x"}
        guess = {**wish, "code": code.reveal()[:4] + "0" * 12}
        told = [door.ask("POST", "/v1/enrol", guess)[0] for _ in range(REFUSALS + 2)]
        assert (told[0], told[-3], told[-2], told[-1]) == (401, 401, 429, 429)
        assert len(env.plane.audit()) == 1 + REFUSALS + 1
        door.close()
