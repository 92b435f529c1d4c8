"""What a spec may not say: each refusal at its field, with the value, the reason and the mend."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gpulayer.contracts import CommandJob, DistributedJob, JobSpec, ResourceRequest, validate_spec
from tests.unit.contracts.specs import (
    ARTIFACT,
    command,
    distributed,
    function,
    only_problem,
    refusal,
    resources,
)

ESC, BIDI, ZERO_WIDTH, CYRILLIC_A = "\x1b", "\u202e", "\u200b", "\u0430"


def _inputs(*paths: str) -> dict[str, Any]:
    return command(inputs=[{"artifact": ARTIFACT, "path": path} for path in paths])


@pytest.mark.parametrize(
    ("data", "field", "says"),
    [
        # --- contradictions -----------------------------------------------------------------
        (resources(gpu_memory_gb=24), "resources.gpu_memory_gb", "accelerator is cpu"),
        (resources(gpu_memory_kind="unified"), "resources.gpu_memory_kind", "is cpu"),
        (resources(gpu_models=["a100"]), "resources.gpu_models", "is cpu"),
        (resources(accelerator="cuda", gpu_count=0), "resources.gpu_count", "is 0"),
        (resources(accelerator="gpu", gpu_count=0), "resources.gpu_count", "is gpu"),
        (resources(profile="mlx", gpu_count=0), "resources.gpu_count", "is mps"),
        (resources(profile="pytorch-cpu", gpu_count=1), "resources.gpu_count", "is cpu"),
        (resources(profile="mlx", accelerator="gpu"), "resources.accelerator", "mlx needs mps"),
        (
            resources(accelerator="mps", min_cuda_compute_capability="8.0"),
            "resources.min_cuda_compute_capability",
            "needs CUDA",
        ),
        (distributed(resources={"profile": "mlx"}), "resources.accelerator", "independent jobs"),
        (
            distributed({"comm_backend": "nccl"}, resources={"accelerator": "gpu"}),
            "workload.comm_backend",
            "needs CUDA",
        ),
        (distributed(retry={"retry_on": ["failed"]}), "retry.retry_on", "not retried"),
        (distributed(reuse=True), "reuse", "for functions"),
        (command(resume={"max_restarts": 1}), "resume", "for distributed jobs"),
        (distributed({"function_args": [1]}), "workload.function_args", "a script is to run"),
        # --- one name, one place ------------------------------------------------------------
        (command(env={"T": "x"}, secrets=[{"name": "T"}]), "secrets[0].name", "env sets too"),
        (command(secrets=[{"name": "T"}, {"name": "T"}]), "secrets[1].name", "is T"),
        (command(secrets=[{"name": "RANK"}]), "secrets[0].name", "reserved"),
        (command(secrets=[{"name": "T", "key": "GPULAYER_TOKEN"}]), "secrets[0].key", "reserved"),
        (command(secrets=[{"name": "T", "source": "file"}]), "secrets[0].key", "file that holds"),
        *(
            (
                command(secrets=[{"name": "T", "source": "command", "key": key}]),
                "secrets[0].key",
                "is not a name in the worker's list",
            )
            for key in ("pass show hf", "../../x", "/bin/x", "a\n", "GPULAYER_TOKEN", "-x", "x;y")
        ),
        (_inputs("a", "a"), "inputs[1].path", "earlier input"),
        (_inputs("a", "a/b"), "inputs[1].path", "earlier input"),
        (_inputs("a/b", "a"), "inputs[1].path", "earlier input"),
        # --- strictness ---------------------------------------------------------------------
        (command(timeout_seconds="60"), "timeout_seconds", 'text "60"'),
        (command(timeout_seconds=True), "timeout_seconds", "true or false"),
        (command(priority="1"), "priority", "a whole number"),
        (command(priority=1.0), "priority", "a whole number"),
        (command(priority=True), "priority", "a whole number"),
        (command(priority=2**63), "priority", "at most"),
        (command(priority=10**400), "priority", "at most"),
        (command(cache="yes"), "cache", "true or false"),
        (command(cache=1), "cache", "true or false"),
        (command(env={"A": 1}), "env.A", "must be text"),
        (command(labels=["a"]), "labels", "must be an object"),
        (command(inputs="x"), "inputs", "must be a list"),
        (command(resources=None), "resources", "not null"),
        (command(name=None), "name", "must be text"),
        (resources(accelerator="CUDA"), "resources.accelerator", "one of cpu, cuda"),
        # --- numbers ------------------------------------------------------------------------
        (command(timeout_seconds=-1), "timeout_seconds", "more than 0"),
        (command(timeout_seconds=1e308), "timeout_seconds", "at most"),
        (command(timeout_seconds=math.nan), "timeout_seconds", "finite"),
        (command(timeout_seconds=math.inf), "timeout_seconds", "finite"),
        (resources(cpu_cores=0), "resources.cpu_cores", "more than 0"),
        (resources(memory_gb=math.nan), "resources.memory_gb", "finite"),
        (resources(accelerator="cuda", gpu_count=-1), "resources.gpu_count", "at least 0"),
        (distributed({"rendezvous": {"port": 1023}}), "workload.rendezvous.port", "1024"),
        (distributed({"rendezvous": {"port": 65_536}}), "workload.rendezvous.port", "65535"),
        (command(retry={"max_attempts": 0}), "retry.max_attempts", "at least 1"),
        (command(retry={"retry_on": ["exit:0"]}), "retry.retry_on[0]", "exit:1 to exit:255"),
        (command(retry={"retry_on": ["exit:256"]}), "retry.retry_on[0]", "exit:1 to exit:255"),
        (command(retry={"retry_on": ["oom"]}), "retry.retry_on[0]", "worker_lost"),
        (command(placement={"max_hourly_cost": 0}), "placement.max_hourly_cost", "more than 0"),
        (command(placement={"currency": "usd"}), "placement.currency", "capital"),
        # --- names --------------------------------------------------------------------------
        (command(name=f"a{ESC}[31m"), "name", "letters, digits"),
        (command(name="a\n"), "name", "letters, digits"),
        (command(name=f"a{BIDI}b"), "name", "letters, digits"),
        (command(name=f"tr{CYRILLIC_A}in"), "name", "letters, digits"),
        (command(name="<script>"), "name", "letters, digits"),
        (command(name="a/b"), "name", "letters, digits"),
        (command(labels={"a": f"x{ESC}"}), "labels.a", "printable"),
        (command(labels={"a": f"x{BIDI}"}), "labels.a", "printable"),
        (command(labels={"a": "<script>"}), "labels.a", "printable"),
        (command(labels={"a\nb": "x"}), 'labels["a\\nb"]', "printable"),
        (command(labels={"": "x"}), "labels", "empty key"),
        (command(placement={"worker_labels": {"a": "x\n"}}), "placement.worker_labels.a", "print"),
        (command(placement={"worker_ids": ["a b"]}), "placement.worker_ids[0]", "no blanks"),
        (command(image="-v/:/host"), "image", "image's reference"),
        (command(image="a b"), "image", "image's reference"),
        (command(data=["../x"]), "data[0]", "letters, digits"),
        # --- environment --------------------------------------------------------------------
        (command(env={"A=B": "x"}), 'env["A=B"]', "variable's name"),
        (command(env={"": "x"}), 'env[""]', "variable's name"),
        (command(env={"A\0": "x"}), 'env["A\\u0000"]', "variable's name"),
        (command(env={"A B": "x"}), 'env["A B"]', "variable's name"),
        (command(env={"1A": "x"}), "env.1A", "variable's name"),
        (command(env={f"R{CYRILLIC_A}NK": "x"}), 'env["R\\u0430NK"]', "variable's name"),
        (command(env={"A": "x\0y"}), "env.A", "NUL"),
        (command(env={"A": "\ud800"}), "env.A", "surrogate"),
        (command(env={"PET_NNODES": "2"}), "env.PET_NNODES", "reserved"),
        (command(env={"CUDA_VISIBLE_DEVICES": "0"}), "env.CUDA_VISIBLE_DEVICES", "reserved"),
        # --- commands and functions ---------------------------------------------------------
        ({"workload": {"kind": "command", "command": ["a\0b"]}}, "workload.command[0]", "NUL"),
        ({"workload": {"kind": "command", "command": [""]}}, "workload.command[0]", "empty"),
        ({"workload": {"kind": "command", "command": "ls"}}, "workload.command", "a list"),
        ({"workload": {"kind": "command", "command": ["a", 1]}}, "workload.command[1]", "text"),
        ({"workload": {}}, "workload", "three kinds"),
        ({"workload": "ls"}, "workload", "must be an object"),
        (function("a:b:c"), "workload.entrypoint", "module:function"),
        (function("..x:y"), "workload.entrypoint", "module:function"),
        (function("__main__:x"), "workload.entrypoint", "module:function"),
        (function("a.__init__:x"), "workload.entrypoint", "module:function"),
        (function("a:x.__class__"), "workload.entrypoint", "module:function"),
        (function("a:__import__"), "workload.entrypoint", "module:function"),
        (function(f"{CYRILLIC_A}:x"), "workload.entrypoint", "module:function"),
        (function("a:x\n"), "workload.entrypoint", "module:function"),
        (function("a b:x"), "workload.entrypoint", "module:function"),
        (function(args=[1, {"a": math.nan}]), "workload.args[1].a", "JSON cannot say"),
        (function(args=[(1, 2)]), "workload.args[0]", "a tuple"),
        (function(args=[{1: 2}]), "workload.args[0]", "not text"),
        (function(args=[b"x"]), "workload.args[0]", "a bytes"),
        (function(args=["\ud800"]), "workload.args[0]", "surrogate"),
        (function(kwargs={"a": {1}}), "workload.kwargs.a", "a set"),
        # --- versions and packages ----------------------------------------------------------
        (resources(python="3.12.x"), "resources.python", '"3.12.x" is not a version'),
        (resources(frameworks={"to rch": ""}), 'resources.frameworks["to rch"]', "framework's"),
        (resources(frameworks={"torch": ">=" + "1" * 200}), "resources.frameworks.torch", "128"),
        (command(environment={"requirements": ["-e ."]}), "environment.requirements[0]", "option"),
        (
            command(environment={"requirements": ["--index-url=http://x"]}),
            "environment.requirements[0]",
            "option",
        ),
        (
            command(environment={"requirements": ["a @ file:///etc"]}),
            "environment.requirements[0]",
            "address",
        ),
        (
            command(environment={"requirements": ["git+https://x/y"]}),
            "environment.requirements[0]",
            "not a requirement",
        ),
        (
            command(environment={"requirements": ["a; os.system('x')"]}),
            "environment.requirements[0]",
            "not a requirement",
        ),
        (command(environment={"preload": ["os; x"]}), "environment.preload[0]", "module's name"),
        # --- arrays -------------------------------------------------------------------------
        (command(array={}), "array", "exactly one"),
        (command(array={"count": 1, "items": [1]}), "array", "count and items"),
        (command(array={"items": []}), "array.items", "0 entries"),
        (command(array={"items": "x"}), "array.items", "artifact://"),
        (command(array={"items": 5}), "array.items", "must be a list"),
        (command(array={"matrix": {}}), "array.matrix", "no parameter"),
        (command(array={"matrix": {"index": [1]}}), "array.matrix.index", "reserved word"),
        (command(array={"matrix": {"a-b": [1]}}), "array.matrix.a-b", "parameter's name"),
        (command(array={"matrix": {"a": []}}), "array.matrix.a", "0 values"),
        (
            command(array={"matrix": {"a": list(range(1001)), "b": list(range(1000))}}),
            "array.matrix",
            "1001000 combinations",
        ),
    ],
)
def test_refused_at_its_field_with_a_reason(data: Any, field: str, says: str) -> None:
    problem = only_problem(data)
    assert problem.field == field
    assert says in problem.message
    assert problem.mend


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "a/../../x", "C:x", "c:/x", "a\\b", "", ".", "./x", "a//b", "a/", "..",
     "a\0b", "a\nb", f"a{ESC}", f"a{BIDI}", f"a{ZERO_WIDTH}"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (lambda path: _inputs(path), "inputs[0].path"),
        (lambda path: command(outputs=[path]), "outputs[0]"),
        (lambda path: command(checkpoint={"path": path}), "checkpoint.path"),
        (lambda path: command(environment={"file": path}), "environment.file"),
        (lambda path: distributed({"entrypoint": path}), "workload.entrypoint"),
    ],
)
def test_no_path_leaves_its_folder(path: str, spec: Any, field: str) -> None:
    refused = refusal(spec(path))
    assert refused.code == "unsafe-path"
    assert [p.field for p in refused.problems] == [field]


@pytest.mark.parametrize("path", ["x", "data/x", "a/b.tar.gz", "..x", "a..b/c", "ä/ö", "*.pt"])
def test_a_relative_path_is_taken(path: str) -> None:
    assert validate_spec(_inputs(path)).inputs[0].path == path


def test_an_argument_is_never_read_as_anything_else() -> None:
    words = ["--", "-x", "@file", "$(id)", "`id`", "a b", "", "*", "~", "{index}", "bad\udcff"]
    spec = validate_spec({"workload": {"kind": "command", "command": ["echo", *words]}})
    assert isinstance(spec.workload, CommandJob)
    assert spec.workload.command == ["echo", *words]


def test_json_that_looks_like_python_is_data() -> None:
    value = {"__class__": "os", "py/object": "x", "$ref": "#/"}
    assert validate_spec(function(args=[value])).workload.args == [value]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name",
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME "
    "ROLE_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT PYTHON_EXEC CUDA_VISIBLE_DEVICES "
    "CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "
    "GPU_DEVICE_ORDINAL GPULAYER_X TORCHELASTIC_X TORCH_ELASTIC_X PET_X".split(),
)
def test_the_names_of_launchers_and_devices_are_reserved(name: str) -> None:
    for data in (command(env={name: "1"}), command(secrets=[{"name": name}])):
        assert "is reserved" in only_problem(data).message


def test_the_loader_s_names_are_the_job_s_own_affair() -> None:
    env = {"LD_PRELOAD": "x", "PYTHONPATH": "y", "BASH_ENV": "z", "NCCL_DEBUG": "INFO",
           "OMP_NUM_THREADS": "4", "PYTORCH_CUDA_ALLOC_CONF": "a", "SLURM_JOB_ID": "1"}  # fmt: skip
    assert validate_spec(command(env=env)).env == env


def test_a_value_of_env_is_never_shown() -> None:
    refused = refusal(command(env={"TOKEN": 1234567, "B": "hunter2\0"}))
    assert "1234567" not in json.dumps(refused.to_json())
    assert "hunter2" not in json.dumps(refused.to_json())


def test_construction_validates_too() -> None:
    with pytest.raises(ValueError, match="accelerator is cpu"):
        ResourceRequest(gpu_count=1)


def test_a_backend_follows_the_accelerator_and_is_not_shared() -> None:
    work = DistributedJob(entrypoint="train.py")
    on_cuda = JobSpec(workload=work, resources=ResourceRequest(accelerator="cuda"))
    on_cpu = JobSpec(workload=work)
    assert isinstance(on_cuda.workload, DistributedJob)
    assert isinstance(on_cpu.workload, DistributedJob)
    assert (on_cuda.workload.comm_backend, on_cpu.workload.comm_backend) == ("nccl", "gloo")


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"os": ["darwin"]}, {"os": ["macos"]}),
        ({"cpu_arch": ["aarch64", "amd64"]}, {"cpu_arch": ["arm64", "x86_64"]}),
        ({"accelerator": "gpu", "gpu_models": ["RTX 4090"]}, {"gpu_models": ["rtx4090"]}),
        ({"accelerator": "gpu"}, {"gpu_count": 1}),
        ({"accelerator": "rocm", "gpu_count": 4}, {"gpu_count": 4}),
        ({"profile": "pytorch-mps"}, {"frameworks": {"torch": ">=2.1", "torch.mps": ""}}),
        ({"memory_gb": 8, "disk_gb": 1}, {"memory_gb": 8.0, "disk_gb": 1.0}),
        ({"frameworks": {"torch": ""}}, {"frameworks": {"torch": ""}}),
    ],
)
def test_what_is_asked_for_becomes_what_is_matched(given: Any, becomes: Any) -> None:
    asked = validate_spec(command(resources=given)).resources
    assert {name: getattr(asked, name) for name in becomes} == becomes
