"""What is valid survives the wire, what is not is refused with a reason, and nothing crashes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings, strategies as st

from gpulayer.contracts import (
    PROFILES,
    not_yet,
    parse_duration,
    parse_gpus,
    parse_memory_gb,
    spec_to_json,
    validate_jobfile,
    validate_spec,
)
from gpulayer.contracts.data_sets import variable
from gpulayer.errors import SpecError, UsageError

laws = settings(deadline=None)

ARTIFACT = "artifact://sha256/" + "0f" * 32

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = st.from_regex(r"[A-Za-z0-9_.-]{1,63}", fullmatch=True)
identifiers = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
distributions = st.from_regex(r"[a-z]([a-z0-9._-]{0,8}[a-z0-9])?", fullmatch=True)
variables = st.from_regex(r"[A-Z]{3}X_[A-Z0-9_]{0,10}", fullmatch=True)
entrypoints = st.builds("{}:{}".format, identifiers, identifiers)
paths = st.lists(identifiers, min_size=1, max_size=4).map("/".join)
specifiers = st.sampled_from(["", ">=2", ">=2.2,<3", "==3.12.*", "~=1.4"])
seconds = st.one_of(st.integers(1, 10**6), st.floats(0.001, 10**6))
sources = st.sampled_from([None, ARTIFACT])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def _some(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


commands = _some(
    {
        "kind": st.just("command"),
        "command": st.lists(words, min_size=1, max_size=4).filter(lambda argv: argv[0] != ""),
    },
    source=sources,
)
functions = _some(
    {"kind": st.just("function"), "entrypoint": entrypoints},
    args=st.lists(json_values, max_size=3),
    kwargs=st.dictionaries(identifiers, json_values, max_size=3),
    source=sources,
)
scripts = _some(
    {"kind": st.just("distributed"), "entrypoint": paths},
    args=st.lists(words, max_size=3),
    source=sources,
    num_workers=st.integers(1, 8),
    procs_per_worker=st.integers(1, 8),
    comm_backend=st.just("gloo"),
    rendezvous=_some({}, port=st.integers(1024, 65_535), join_timeout_seconds=seconds),
    launcher=st.sampled_from(["torchrun", "direct"]),
)
sizes = st.integers(1, 1000) | st.floats(0.1, 1000)
common = {
    "cpu_cores": sizes,
    "memory_gb": st.none() | sizes,
    "disk_gb": st.none() | sizes,
    "os": st.lists(st.sampled_from(["linux", "macos", "windows"]), max_size=2),
    "cpu_arch": st.lists(st.sampled_from(["x86_64", "arm64"]), max_size=2),
    "frameworks": st.dictionaries(distributions, specifiers, max_size=2),
    "python": st.none() | specifiers,
}
on_cpu = _some({}, accelerator=st.just("cpu"), gpu_count=st.just(0), **common)
on_gpu = _some(
    {"accelerator": st.sampled_from(["cuda", "gpu"])},
    gpu_count=st.integers(1, 8),
    gpu_memory_gb=sizes,
    gpu_memory_kind=st.sampled_from(["dedicated", "unified"]),
    gpu_models=st.lists(identifiers.map(lambda name: name.replace("_", "")), max_size=2),
    min_cuda_compute_capability=st.just("8.0"),
    **common,
)
by_profile = _some({"profile": st.sampled_from(sorted(PROFILES))}, **common)
placements = _some(
    {},
    target=st.sampled_from(["local", "remote", "cloud"]),
    worker_ids=st.lists(identifiers, max_size=2),
    worker_labels=st.dictionaries(identifiers, identifiers, max_size=2),
    strategy=st.sampled_from(["spread", "first_fit", "most_free_memory"]),
    on_unschedulable=st.sampled_from(["queue", "fail"]),
    provisioning=st.none() | _some({}, provider=identifiers, release=st.just("keep")),
)


def _specs(work: Any, needs: Any, **more: Any) -> st.SearchStrategy[dict[str, Any]]:
    return _some(
        {"workload": work},
        api_version=st.just("gpulayer.dev/v1alpha1"),
        name=names,
        resources=needs,
        placement=placements,
        env=st.dictionaries(variables, words, max_size=3),
        secrets=st.just([{"name": "TOKEN"}]),
        inputs=st.just([]) | paths.map(lambda path: [{"artifact": ARTIFACT, "path": path}]),
        stdin=st.none() | st.just(ARTIFACT),
        timeout_seconds=st.none() | seconds,
        labels=st.dictionaries(identifiers, identifiers, max_size=3),
        priority=st.integers(-100, 100),
        after=st.lists(_some({"job": names}, when=st.sampled_from(["ok", "any"])), max_size=2),
        outputs=st.lists(paths, max_size=2),
        environment=st.none() | _some({}, requirements=st.just(["a>=1"]), preload=st.just(["a.b"])),
        array=st.none() | _some({"count": st.integers(1, 9)}, max_parallel=st.integers(1, 9)),
        checkpoint=st.none() | _some({"path": paths}, interval_seconds=seconds),
        data=st.lists(names, max_size=2, unique_by=variable),
        cache=st.booleans(),
        **more,
    )


retries = _some(
    {},
    max_attempts=st.integers(1, 21),
    retry_on=st.lists(st.sampled_from(["worker_lost", "failed", "exit:3"]), max_size=2),
)
specs = st.one_of(
    _specs(commands, on_cpu | on_gpu | by_profile, retry=retries),
    _specs(functions, on_cpu | on_gpu | by_profile, retry=retries, reuse=st.none() | st.booleans()),
    _specs(scripts, on_cpu | on_gpu, resume=st.none() | _some({}, max_restarts=st.integers(0, 5))),
)
junk = st.one_of(
    json_values,
    st.sampled_from([float("nan"), float("inf"), 2**70, "\x1b[0m", "\0", "../x", "\ud800", b"x"]),
    st.tuples(json_values),
)


@laws
@given(specs)
def test_what_is_valid_survives_the_wire(data: dict[str, Any]) -> None:
    spec = validate_spec(data)
    sent = json.loads(json.dumps(spec_to_json(spec)))
    again = validate_spec(sent)
    assert again == spec
    assert spec_to_json(again) == sent
    assert set(sent) <= set(data)


@laws
@given(specs)
def test_a_spec_is_the_same_in_a_file(data: dict[str, Any]) -> None:
    spec = validate_spec(data)
    assert validate_jobfile(json.dumps(data), "job.json") == spec
    assert validate_jobfile(json.dumps(data, indent=1), "job.json") == spec


@laws
@given(specs)
def test_asking_what_is_not_built_changes_nothing(data: dict[str, Any]) -> None:
    spec = validate_spec(data)
    before = spec_to_json(spec)
    assert all(problem.slug == "not-yet" and problem.mend for problem in not_yet(spec))
    assert spec_to_json(spec) == before


@laws
@given(specs, st.data())
def test_a_damaged_spec_is_taken_or_refused_and_never_crashes(
    data: dict[str, Any], draw: st.DataObject
) -> None:
    damaged = copy.deepcopy(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        _damage(damaged, draw)
    outcome = _outcome(validate_spec, damaged)
    if isinstance(outcome, SpecError):
        assert outcome.problems
        assert all(problem.message and problem.mend for problem in outcome.problems)
        assert json.dumps(outcome.to_json())
    else:
        assert validate_spec(spec_to_json(outcome)) == outcome


@laws
@given(st.text(max_size=200), st.sampled_from(["a.json", "a.yaml", "-"]))
def test_no_text_crashes_the_reader_of_files(text: str, name: str) -> None:
    outcome = _outcome(validate_jobfile, text, name)
    assert isinstance(outcome, SpecError)
    assert all(problem.line for problem in outcome.problems)


@laws
@given(st.text(alphabet="{}[]:,\"&*!-?|>'# \n\tab1~", max_size=60))
def test_no_signs_of_yaml_crash_the_reader(text: str) -> None:
    assert isinstance(_outcome(validate_jobfile, text, "a.yaml"), SpecError)


@laws
@given(
    st.sampled_from([parse_duration, parse_memory_gb, lambda text: parse_gpus(text).count + 1]),
    st.text(alphabet="0123456789.:-smhdwkKGTMiB ,a", max_size=20),
)
def test_a_typed_quantity_is_read_or_refused(parse: Any, text: str) -> None:
    outcome = _outcome(parse, text)
    if isinstance(outcome, UsageError):
        assert outcome.help
    else:
        assert 0 < outcome < 10**9


def _outcome(act: Callable[..., Any], *given: Any) -> Any:
    """What it gives, or the refusal that it raises; any other exception is a crash."""
    try:
        return act(*given)
    except UsageError as refused:
        return refused


def _damage(data: Any, draw: st.DataObject) -> None:
    """Replace, remove or add one value somewhere."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        if not keys:
            break
        key = draw.draw(st.sampled_from(keys))
        if isinstance(data[key], dict | list) and draw.draw(st.booleans()):
            data = data[key]
            continue
        if draw.draw(st.booleans()):
            data[key] = draw.draw(junk)
        else:
            del data[key]
        return
    if isinstance(data, dict):
        data[draw.draw(words)] = draw.draw(junk)
    else:
        data.append(draw.draw(junk))
