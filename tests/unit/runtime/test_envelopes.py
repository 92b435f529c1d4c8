"""Envelopes are kept by what they say; an environment is changed and never reordered."""

from __future__ import annotations

import hashlib
import os

from gpulayer.runtime.envelopes import MOMENT_SECONDS, Envelopes, canonical, environment

WORLD = {"environ": ["A=1", "B=\udcff"], "cwd": "/", "umask": 18}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_an_envelope_is_known_by_what_it_says(tmp_path):
    held = Envelopes(str(tmp_path))
    envelope_id = held.put(WORLD, keep=False)
    assert envelope_id == hashlib.sha256(canonical(WORLD)).hexdigest()
    assert held.put(dict(reversed(WORLD.items())), keep=False) == envelope_id
    assert held.get(envelope_id) == WORLD
    assert os.listdir(tmp_path) == []


def test_one_that_is_dropped_goes_once_its_moment_is_over_and_its_givers_have_left(tmp_path):
    clock = Clock()
    held = Envelopes(str(tmp_path), clock)
    giver = object()
    envelope_id = held.put(WORLD, keep=True, giver=giver)
    held.drop(envelope_id)
    held.giver_left(giver)
    assert held.get(envelope_id) == WORLD  # its job may be on the way
    clock.now = MOMENT_SECONDS
    held.drop(envelope_id)
    held.drop(envelope_id)
    assert held.get(envelope_id) is None
    assert held.put_again(envelope_id, giver) is False
    held.put(WORLD, keep=True, giver=giver)
    assert held.put_again(envelope_id, giver) is True
    clock.now += MOMENT_SECONDS
    held.drop(envelope_id)
    assert held.get(envelope_id) == WORLD  # who gave it is there
    held.giver_left(giver)
    assert held.get(envelope_id) is None


def test_one_that_a_plane_let_go_of_before_it_heard_of_its_job_stays_once_that_is_confirmed(
    tmp_path,
):
    clock = Clock()
    held = Envelopes(str(tmp_path), clock)
    giver = object()
    envelope_id = held.put(WORLD, keep=True, giver=giver)
    clock.now = MOMENT_SECONDS
    held.keep_only(())  # a plane that has just begun, and takes the job after that
    assert held.put_again(envelope_id, giver) is True
    held.giver_left(giver)
    assert held.get(envelope_id) == WORLD


def test_one_that_is_kept_is_private_and_outlives_its_holder(tmp_path):
    envelope_id = Envelopes(str(tmp_path)).put(WORLD, keep=True)
    path = tmp_path / envelope_id
    assert path.stat().st_mode & 0o777 == 0o600
    assert Envelopes(str(tmp_path)).get(envelope_id) == WORLD
    path.write_bytes(path.read_bytes() + b" ")
    assert Envelopes(str(tmp_path)).get(envelope_id) is None
    Envelopes(str(tmp_path)).drop(envelope_id)
    assert not path.exists()


def test_names_that_are_no_ids_lead_nowhere(tmp_path):
    (tmp_path / "x").write_text("{}")
    held = Envelopes(str(tmp_path / "envelopes"))
    assert held.get("../x") is None
    held.drop("../x")
    assert (tmp_path / "x").exists()


def test_an_environment_keeps_its_order_its_doubles_and_its_odd_entries():
    block = environment(
        ["A=1", "odd", "X=old", "A=2", "B=\udcff", "GONE=1"],
        unset=["GONE"],
        setting={"X": "new"},
        defaults={"A": "no", "D": "yes"},
    )
    assert block == [b"A=1", b"odd", b"A=2", b"B=\xff", b"X=new", b"D=yes"]


def test_a_plane_that_begins_anew_says_which_are_still_needed(tmp_path):
    old = Envelopes(str(tmp_path)).put({**WORLD, "cwd": "/old"}, keep=True)
    os.utime(tmp_path / old, (0, 0))
    young = Envelopes(str(tmp_path)).put({**WORLD, "cwd": "/young"}, keep=True)
    clock = Clock()
    held = Envelopes(str(tmp_path), clock)
    needed = held.put(WORLD, keep=True)
    clock.now = MOMENT_SECONDS
    fresh = held.put({**WORLD, "cwd": "/new"}, keep=True)
    (tmp_path / "draft").write_text("not an envelope")
    held.keep_only([needed])
    assert sorted(os.listdir(tmp_path)) == sorted([needed, fresh, young, "draft"])
