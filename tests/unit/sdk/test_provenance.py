"""What a job was and ran in, as it is told, and what differs between two jobs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpulayer.sdk.differing import LINES_SHOWN, Comparison, File, Side, compare
from gpulayer.sdk.provenance import account, digest_of, lines

SECRET = "hunter2"
WORLD = {
    "worker": "lab", "host": "lab", "os": "linux", "kernel": "6.1", "cpu_arch": "x86_64",
    "gpulayer": "0.1.0", "driver": "550.54", "cuda": "12.4",
    "gpus": [{"uuid": "GPU-1", "name": "NVIDIA A100", "memory_gb": 80}],
    "python": {"path": "/usr/bin/python3", "version": "3.11.2", "packages": {"numpy": "1.26.4"}},
}  # fmt: skip
FILES = {"a.py": File((4, 1, False), "x\n"), "data.bin": File((9, 7, False))}


def a_job(**changed: Any) -> dict[str, Any]:
    spec = {
        "workload": {
            "kind": "command", "command": ["python", "a.py"], "source": "artifact://sha256/aa",
        },
        "env": {"TOKEN_OF_NOBODY": SECRET},
        "secrets": [{"name": "HF", "source": "env", "key": SECRET}],
        "inputs": [{"artifact": "artifact://sha256/bb", "path": "in.txt"}],
    }  # fmt: skip
    told = {
        "id": "a-1", "attempt": 1, "spec": spec, "world": "w1", "state": "succeeded",
        "reason": "exited", "exit_code": 0, "result": {"value": 7},
        "origin": {"cwd": "/home/me", "code": {"commit": "c0ffee", "dirty": False}},
        "outputs": [{"path": "out.txt", "digest": "dd"}],
    }  # fmt: skip
    return {**told, **changed}


def a_side(job: dict[str, Any] | None = None, **changed: Any) -> Side:
    return Side(**{"job": job or a_job(), "worlds": {"w1": WORLD}, "files": FILES, **changed})


def test_an_account_names_variables_and_secrets_and_has_no_value_of_any() -> None:
    told = account(a_job(), {"w1": WORLD}.__getitem__)
    assert (told["env"], told["secrets"]) == (["TOKEN_OF_NOBODY"], ["HF"])
    assert told["code"] == {"source": "aa", "folder": "/home/me", "commit": "c0ffee",
                            "dirty": False}  # fmt: skip
    assert told["inputs"] == {"in.txt": "bb"}
    assert told["outputs"] == {"out.txt": "dd"}
    assert told["result"] == digest_of(7)
    assert told["ran_in"][0]["python"]["packages"] == {"numpy": "1.26.4"}
    assert SECRET not in str(told) + str(list(lines(told)))


def test_what_is_not_known_of_a_world_is_said() -> None:
    for world, words in (("gone", "no longer kept"), (None, "not told")):
        told = account(a_job(world=world), lambda digest: {})
        assert ("ran in", words) in list(lines(told))


def changed(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(told: dict[str, Any]) -> None:
        *above, last = path.split("/")
        for key in above:
            told = told[int(key)] if isinstance(told, list) else told[key]
        told[last] = value

    return change


@pytest.mark.parametrize(
    ("where", "change", "part", "name"),
    [
        ("job", changed("spec/env/LR", "2"), "spec", "env.LR"),
        ("job", changed("spec/workload/command", ["true"]), "spec", "workload.command"),
        ("job", changed("spec/image", "x@sha256:1"), "spec", "image"),
        ("job", changed("spec/inputs/0/artifact", "artifact://sha256/cc"), "spec", "inputs.in.txt"),
        ("job", changed("origin/code/commit", "decade"), "code", "commit"),
        ("job", changed("exit_code", 3), "result", "exit_code"),
        ("job", changed("result/value", 8), "result", "value"),
        ("job", changed("outputs/0/digest", "ee"), "result", "output out.txt"),
        ("world", changed("python/packages/numpy", "2.0.0"), "environment", "numpy"),
        ("world", changed("python/packages/torch", "2.5"), "environment", "torch"),
        ("world", changed("python/version", "3.12.1"), "environment", "python version"),
        ("world", changed("driver", "560.1"), "worker", "driver"),
        ("world", changed("gpus/0/uuid", "GPU-2"), "worker", "gpu 0"),
        ("world", changed("worker", "desk"), "worker", "worker"),
    ],
)
def test_one_change_is_told_as_exactly_that(
    where: str, change: Callable[[dict[str, Any]], None], part: str, name: str
) -> None:
    job, world = copy.deepcopy(a_job()), copy.deepcopy(WORLD)
    change(job if where == "job" else world)
    found = compare(a_side(), a_side(job, worlds={"w1": world}))
    assert [(one.part, one.name) for one in found.differences] == [(part, name)]
    assert found.unknown == ()


@given(st.dictionaries(st.sampled_from("abc"), st.binary(max_size=3), max_size=3),
       st.dictionaries(st.sampled_from("abc"), st.binary(max_size=3), max_size=3))  # fmt: skip
def test_the_files_that_differ_are_those_that_are_named(
    a: dict[str, bytes], b: dict[str, bytes]
) -> None:
    def files(given: dict[str, bytes]) -> dict[str, File]:
        return {k: File((len(v), hash(v), False), repr(v)) for k, v in given.items()}

    other = a_job()
    other["spec"] = copy.deepcopy(other["spec"])
    other["spec"]["workload"]["source"] = "artifact://sha256/ff"
    found = compare(a_side(files=files(a)), a_side(other, files=files(b)))
    named = {one.name for one in found.differences if one.name in "abc"}
    assert named == {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}
    for one in found.differences:
        assert bool(one.lines) == (one.name in a.keys() & b.keys())


def _of(texts: list[str], **changed: Any) -> Comparison:
    jobs = [a_job(), a_job()]
    jobs[1]["spec"] = copy.deepcopy(jobs[1]["spec"])
    jobs[1]["spec"]["workload"]["source"] = "artifact://sha256/ff"
    files = [{"a.py": File((len(text), len(text), False), text)} for text in texts]
    one, two = (a_side(job, files=file) for job, file in zip(jobs, files, strict=True))
    return compare(one, a_side(jobs[1], files=None) if changed.get("gone") else two)


def test_a_long_comparison_is_cut_and_says_so() -> None:
    found = _of(["", "".join(f"{n}\n" for n in range(999))])
    [file] = [one for one in found.differences if one.name == "a.py"]
    assert len(file.lines) == LINES_SHOWN + 1
    assert file.lines[-1] == f"... and {999 + 3 - LINES_SHOWN} more lines"


def test_what_is_not_kept_is_not_taken_for_equal() -> None:
    found = _of(["x", "y"], gone=True)
    assert found.unknown == ("code of a-1: its bundle is not kept any more",)
    here = a_job()
    here["spec"] = {**here["spec"], "workload": {"kind": "command", "command": ["true"]}}
    here["origin"] = {"cwd": "/x", "code": {"commit": "c0ffee", "dirty": True}}
    found = compare(a_side(here, files=None, worlds={}), a_side(here, files=None))
    assert len(found.unknown) == 2  # no copy of its folder, and the world of the first
    assert found.differences == ()
