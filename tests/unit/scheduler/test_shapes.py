"""What the scheduler looks at in a job."""

from __future__ import annotations

from typing import Any

from gpulayer.contracts.decision import Shape
from gpulayer.contracts.jobspec import JobSpec
from gpulayer.control_plane.scheduler.shapes import (
    shape_from_json,
    shape_id,
    shape_of,
    shape_to_json,
)

COMMAND = {"kind": "command", "command": ["python", "train.py"]}
ORIGIN = {
    "interpreter": {"path": "/home/ann/.venv/bin/python", "version": "3.12.7"},
    "visible_gpus": ["0", "1"],
}


def shape(origin: dict[str, Any] | None = None, **spec: Any) -> Shape:
    return shape_of({"workload": COMMAND, **spec}, origin or {})


def test_a_plain_command_needs_one_core_here() -> None:
    assert shape() == Shape(targets=("local",))


def test_names_and_arguments_do_not_matter() -> None:
    other = {"kind": "command", "command": ["echo"]}
    assert shape_id(shape(name="a")) == shape_id(shape(name="b", workload=other, env={"A": "1"}))


def test_every_need_changes_the_shape() -> None:
    needs: list[dict[str, Any]] = [
        {"resources": {"cpu_cores": 2}},
        {"resources": {"memory_gb": 4}},
        {"resources": {"disk_gb": 4}},
        {"resources": {"os": ["linux"]}},
        {"resources": {"cpu_arch": ["arm64"]}},
        {"resources": {"python": ">=3.10"}},
        {"resources": {"frameworks": {"torch": ""}}},
        {"resources": {"accelerator": "cuda"}},
        {"resources": {"accelerator": "cuda", "gpu_count": 2}},
        {"resources": {"accelerator": "cuda", "gpu_memory_gb": 40}},
        {"resources": {"accelerator": "cuda", "gpu_models": ["a100"]}},
        {"placement": {"target": "remote"}},
        {"placement": {"fallback_targets": ["remote"]}},
        {"placement": {"worker_ids": ["lab-1"]}},
        {"placement": {"worker_labels": {"pool": "a"}}},
        {"placement": {"providers": ["aws"]}},
        {"placement": {"regions": ["eu"]}},
        {"placement": {"strategy": "first_fit"}},
        {"placement": {"max_hourly_cost": 2}},
        {"data": ["imagenet"]},
        {"secrets": [{"name": "HF", "key": "hf"}]},
        {},
    ]
    assert len({shape_id(shape(**need)) for need in needs}) == len(needs)


def test_data_that_the_terminal_names_counts_here_alone_and_for_who_asks_for_it() -> None:
    origin = {"data": ["GPULAYER_DATA_B_1", "GPULAYER_DATA_OTHER"]}
    made = shape(origin, data=["b-1", "a"])
    assert (made.data, made.data_here) == (("a", "b-1"), ("b-1",))
    assert shape(origin) == shape()
    far = shape(origin, data=["b-1"], placement={"target": "remote"})
    assert far.data_here == ()


def test_secrets_are_wanted_of_a_worker_where_no_terminal_has_them() -> None:
    secrets = [{"name": "B", "source": "env", "key": "b"}, {"name": "A"}]
    terminal = {"interpreter": {"path": "/p"}}
    anywhere = {"target": "remote", "fallback_targets": ["local"]}
    assert shape(secrets=secrets).secrets == ("A", "b")
    assert shape(terminal, secrets=secrets) == shape(terminal)  # its terminal is asked, at once
    either = shape(terminal, secrets=secrets, placement=anywhere)
    assert (either.secrets, either.secrets_here) == (("A", "b"), True)
    assert not shape(terminal, placement=anywhere).secrets_here


def test_a_gpu_accelerator_means_one_device() -> None:
    assert shape(resources={"accelerator": "cuda"}).gpus == 1
    assert shape(resources={"profile": "pytorch-cuda"}).gpus == 1


def test_a_profile_counts_as_what_it_stands_for_and_can_be_overridden() -> None:
    made = shape(resources={"profile": "pytorch-cuda", "frameworks": {"Torch": ">=2.5"}})
    assert made.accelerator == "cuda"
    assert dict(made.frameworks) == {"torch": ">=2.5", "torch.cuda": ""}


def test_a_spec_with_its_defaults_filled_in_has_the_same_shape() -> None:
    given = {"workload": COMMAND, "resources": {"profile": "pytorch-cuda", "cpu_cores": 2}}
    filled = JobSpec.model_validate(given).model_dump(mode="json")
    assert shape_of(given, ORIGIN) == shape_of(filled, ORIGIN)


def test_the_number_of_workers_is_that_of_a_distributed_job() -> None:
    gang = {"kind": "distributed", "entrypoint": "train.py", "num_workers": 4}
    assert shape(workload=gang).nodes == 4
    assert shape(workload={"kind": "distributed", "entrypoint": "train.py"}).nodes == 1


def test_the_interpreter_counts_only_where_python_is_asked_for() -> None:
    assert shape(ORIGIN).interpreter is None
    asked = shape(ORIGIN, resources={"python": ">=3.12"})
    assert (asked.interpreter, asked.interpreter_version) == (
        "/home/ann/.venv/bin/python",
        "3.12.7",
    )


def test_the_terminals_devices_count_only_for_jobs_with_gpus_that_may_run_here() -> None:
    gpu = {"accelerator": "gpu"}
    assert shape(ORIGIN).visible_gpus is None
    assert shape(ORIGIN, resources=gpu).visible_gpus == ("0", "1")
    assert shape(ORIGIN, resources=gpu, placement={"target": "remote"}).visible_gpus is None
    assert shape({"visible_gpus": []}, resources=gpu).visible_gpus == ()


def test_order_and_form_of_lists_and_numbers_do_not_matter() -> None:
    one = shape(resources={"os": ["linux", "macos"], "memory_gb": 4})
    other = shape(resources={"os": ["macos", "linux", "linux"], "memory_gb": 4.0})
    assert shape_id(one) == shape_id(other)


def test_a_shape_survives_json() -> None:
    made = shape(
        ORIGIN,
        resources={"profile": "pytorch-cuda", "gpu_models": ["a100"], "python": ">=3.10"},
        placement={"worker_labels": {"pool": "a"}, "fallback_targets": ["remote"]},
    )
    assert shape_from_json(shape_to_json(made)) == made
    assert shape_from_json({**shape_to_json(made), "of_a_newer_version": 1}) == made
