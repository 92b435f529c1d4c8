"""What a job requires, from `-r`, requirements files and the headers of scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulayer.errors import GPULayerError
from gpulayer.sdk.describe import spec_of
from gpulayer.sdk.requirements import requirements_of, with_header

HEADER = """#!/usr/bin/env python
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "einops>=0.8",  # a comment
#   "tqdm",
# ]
# ///
import einops
"""


def refusal(*texts: str, folder: Path) -> GPULayerError:
    with pytest.raises(GPULayerError) as refused:
        requirements_of(texts, str(folder))
    return refused.value


def test_a_word_is_a_requirement_and_a_file_gives_its_lines(tmp_path: Path) -> None:
    (tmp_path / "reqs.txt").write_text(
        "# all\n\neinops >= 0.8  # for attention\ntqdm;os_name=='x'\n"
    )
    found = requirements_of(["numpy<3", "reqs.txt"], str(tmp_path))
    assert found == ["numpy<3", "einops >= 0.8", "tqdm;os_name=='x'"]


def test_a_file_that_is_not_there_is_not_taken_for_a_package(tmp_path: Path) -> None:
    for name in ("requirements.txt", "a/b"):
        assert refusal(name, folder=tmp_path).code == "file-not-found"


@pytest.mark.parametrize(
    "line",
    [
        "-e .", "-r other.txt", "--index-url https://me:hunter22@evil/simple", "./wheel.whl",
        "evil @ https://me:hunter22@evil/x.whl", "evil @ file:///x", "git+https://evil/x.git",
        "a==1; os.system('x')", "a \\",
    ],
)  # fmt: skip
def test_a_line_that_chooses_where_code_comes_from_is_refused_where_it_stands(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "reqs.txt").write_text(f"tqdm\n{line}\n")
    error = refusal("reqs.txt", folder=tmp_path)
    assert error.code == "usage"
    assert error.message.startswith("reqs.txt:2 is ")
    assert line.split("//")[0] in error.message.replace("\\\\", "\\")
    assert "hunter22" not in error.message


def test_a_lock_is_left_to_the_worker_and_named_from_the_folder_that_travels(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "hashed.txt").write_text("a==1 \\\n  --hash=sha256:00\n")
    names = ["pyproject.toml", "uv.lock", "pylock.toml", "sub/pylock.gpu.toml"]
    for name in names:
        (tmp_path / name).touch()
    found = requirements_of([*names, str(tmp_path / "hashed.txt"), "tqdm"], str(tmp_path))
    assert found == [*names, "hashed.txt", "tqdm"]
    spec = spec_of(command("true"), {"requirements": ["uv.lock", "tqdm"]})
    assert spec["environment"] == {"requirements": ["tqdm"], "file": "uv.lock"}
    with pytest.raises(GPULayerError, match="may name one file"):
        spec_of(command("true"), {"requirements": ["uv.lock", "pylock.toml"]})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("../uv.lock", "", "is not in this folder"),
        ("poetry.lock", "", "is called like none"),
        ("sub/reqs", "a==1 --hash=sha256:00", "is called like none"),
        ("r.txt", "a==1 --hash=sha256:00\nb==1", "r.txt:2 is 'b==1', without its hash"),
        ("r.txt", "a==1 --hash=sha256:00\n--pre", "r.txt:2 is '--pre', an option"),
    ],
)
def test_a_lock_that_cannot_travel_or_is_none_is_refused(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / name).write_text(text)
    assert says in refusal(name, folder=tmp_path / "work").message


def test_where_the_terminal_lets_lines_pass_the_worker_judges_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.txt").write_text("--pre\n")
    monkeypatch.setenv("GPULAYER_REQUIREMENT_LINES", "any")
    assert requirements_of(["r.txt"], str(tmp_path)) == ["r.txt"]


@pytest.mark.parametrize("text", ["evil @ https://evil/x.whl", "git+https://evil/x", "-e ./x"])
def test_a_word_is_held_to_the_same(tmp_path: Path, text: str) -> None:
    error = refusal(text, folder=tmp_path)
    assert error.code == "usage"
    assert error.message.startswith(f"-r is '{text}'")


def command(*words: str) -> dict[str, Any]:
    return {"kind": "command", "command": list(words)}


@pytest.mark.parametrize(
    "workload",
    [command("python", "t.py", "-v"), {"kind": "distributed", "entrypoint": "t.py"}],
    ids=["command", "distributed"],
)
def test_the_header_of_a_script_says_what_it_requires(tmp_path: Path, workload: Any) -> None:
    (tmp_path / "t.py").write_text(HEADER)
    said = with_header(workload, {"requirements": ["numpy"], "name": "t"}, str(tmp_path))
    assert said == {
        "requirements": ["numpy", "einops>=0.8", "tqdm"],
        "python": ">=3.11",
        "name": "t",
    }
    assert with_header(workload, {"python": "==3.12.*"}, str(tmp_path))["python"] == "==3.12.*"


@pytest.mark.parametrize(
    "workload",
    [
        command("cat", "t.py"), command("python", "-c", "t.py"), command("python"),
        command("python", "absent.py"), {"kind": "function", "entrypoint": "t:f"},
    ],
)  # fmt: skip
def test_no_other_line_has_a_header(tmp_path: Path, workload: Any) -> None:
    (tmp_path / "t.py").write_text(HEADER)
    assert with_header(workload, {}, str(tmp_path)) == {}


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("# dependencies = [", ""),
        ('# dependencies = "tqdm"', "list"),
        ('# dependencies = ["a @ https://evil/x.whl"]', ""),
        ("# a = 1\n# ///\n\n# /// script\n# dependencies = []", "several"),
    ],
)
def test_a_header_that_cannot_be_taken_is_refused(tmp_path: Path, header: str, why: str) -> None:
    (tmp_path / "t.py").write_text(f"# /// script\n{header}\n# ///\n")
    with pytest.raises(GPULayerError) as refused:
        with_header(command("python", "t.py"), {}, str(tmp_path))
    assert "t.py" in refused.value.message
    assert why in refused.value.why
