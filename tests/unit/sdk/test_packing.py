"""What travels with a job: decided here, sent once, and no more of it than is needed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gpulayer.artifacts import extract_bundle, mending
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.contracts.named import ADDRESS, digests_named
from gpulayer.errors import GPULayerError, NotFoundError, UsageError
from gpulayer.sdk.packing import Packed, pack
from gpulayer.sdk.places import Places
from gpulayer.sdk.sending import FolderParcel


class Plane:
    """Takes uploads as the handlers do, and counts their bytes."""

    def __init__(self, folder: Path) -> None:
        self.artifacts = LocalArtifacts(folder)
        self.bytes = 0

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        assert (method, path) == ("POST", "/v1/artifacts/missing")
        assert body is not None
        return {"missing": [d for d in body["digests"] if not self.artifacts.has(d)]}

    def request(
        self,
        method: str,
        path: str,
        body: BinaryIO | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        park: float = 0.0,
        tries: int | None = None,
    ) -> Any:
        assert body is not None
        assert headers is not None
        body.read(7)
        body.seek(0)  # an exchange that is tried again begins anew
        data = b"".join(iter(lambda: body.read(1 << 16), b""))
        assert len(data) == int(headers["Content-Length"])
        path = path.removesuffix("?offset=0")
        digest, _, base = path.removeprefix("/v1/artifacts/sha256/").partition("/from/")
        if base:
            upload = self.artifacts.folder.parent / "upload"
            upload.write_bytes(data)
            with self.artifacts.open(base) as old, upload.open("rb") as new:
                self.artifacts.put_stream(mending.mended(old, new), digest)
        else:
            self.artifacts.put_stream([data], digest)
        self.bytes += len(data)


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    return Plane(tmp_path / "artifacts")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    for name in ("train.py", "data/x.csv", "pkg/__init__.py", "pkg/mod.py", "tool.sh"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    return made


def command(*words: str) -> dict[str, Any]:
    return {"workload": {"kind": "command", "command": list(words)}}


def function(name: str) -> dict[str, Any]:
    return {"workload": {"kind": "function", "entrypoint": name}}


def paths(packed: Packed) -> list[str] | None:
    """Of the first folder."""
    bundles = [one.bundle for one in packed.parcels if isinstance(one, FolderParcel)]
    return [entry.path for entry in bundles[0].entries] if bundles else None


WHOLE = ["data/x.csv", "pkg/__init__.py", "pkg/mod.py", "tool.sh", "train.py"]


@pytest.mark.parametrize(
    ("words", "is_sent"),
    [
        (["python", "train.py"], True),
        (["python", "./train.py", "--lr", "1"], True),
        (["./tool.sh"], True),
        (["wc", "-l", "data/x.csv"], True),
        (["python", "-c", "1", "--data=data"], True),
        (["ls", "."], True),
        (["python", "-m", "pkg.mod"], True),
        (["python", "-m", "train"], True),
        (["python", "-m", "http.server"], False),
        (["nvidia-smi"], False),
        (["python", "-c", "print(1)"], False),
        (["ls", "../project/../other", "/etc/passwd", ""], False),
        (["sh", "-c", "cat train.py"], False),
    ],
)
def test_a_command_brings_the_folder_in_which_one_of_its_words_names_something(
    project: Path, words: list[str], is_sent: bool
) -> None:
    packed = pack(command(*words), folder=str(project))
    assert paths(packed) == (WHOLE if is_sent else None)
    assert ("source" in packed.spec["workload"]) == is_sent


def test_source_decides_otherwise(project: Path) -> None:
    assert paths(pack(command("true"), folder=str(project), source="pkg")) == [
        "__init__.py", "mod.py",
    ]  # fmt: skip
    assert paths(pack(command("python", "train.py"), folder=str(project), source="none")) is None
    address = ADDRESS + "a" * 64
    packed = pack(command("true"), folder=str(project), source=address)
    assert packed.spec["workload"]["source"] == address
    said = {"workload": {**command("python", "train.py")["workload"], "source": address}}
    assert pack(said, folder=str(project)).spec == said
    with pytest.raises(NotFoundError):
        pack(command("true"), folder=str(project), source="absent")


def test_a_function_brings_its_folder_or_its_package_alone(project: Path) -> None:
    origin = {"sys_path": [str(project)]}
    whole = pack(function("train:main"), function={**origin, "file": str(project / "train.py")})
    assert paths(whole) == WHOLE
    assert whole.function == {"file": "train.py"}
    package = pack(function("pkg.mod:main"), function=origin)
    assert paths(package) == ["pkg/__init__.py", "pkg/mod.py"]
    main = pack(function("pkg:main"), function={**origin, "module": "pkg.__main__"})
    assert paths(main) == ["pkg/__init__.py", "pkg/mod.py"]
    assert main.function == {"module": "pkg.__main__"}
    cell = pack(function("cell:f"), function={**origin, "source": "def f(): ..."})
    assert paths(cell) is None
    assert cell.function == {"source": "def f(): ..."}
    for name, more in (("pkg.mod:main", {}), ("cell:f", {"source": "def f(): ..."})):
        spec = function(name) | {"environment": {"file": "uv.lock"}}
        locked = pack(spec, folder=str(project), function={**origin, **more})
        assert paths(locked) == WHOLE


def test_a_function_by_name_brings_the_folder_that_has_its_module(project: Path) -> None:
    assert paths(pack(function("train:main"), folder=str(project))) == WHOLE
    assert paths(pack(function("pkg.mod:main"), folder=str(project))) == WHOLE
    assert paths(pack(function("json:dumps"), folder=str(project))) is None


def test_inputs_are_files_by_name_or_artifacts(project: Path) -> None:
    (project / "with:colon").write_text("c")
    digest = "b" * 64
    packed = pack(
        command("true"),
        folder=str(project),
        inputs=["data/x.csv", "train.py:code/t.py", "with:colon", f"{ADDRESS}{digest}:old"],
    )
    assert [(item["path"], len(item["artifact"])) for item in packed.spec["inputs"]] == [
        ("x.csv", 82), ("code/t.py", 82), ("with:colon", 82), ("old", 82),
    ]  # fmt: skip
    assert list(digests_named(packed.spec))[-1] == digest
    assert packed.say()[0] == f"input: {project}/data/x.csv, 10 B"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("absent", NotFoundError, "does not exist"),
        (ADDRESS + "b" * 64, UsageError, "needs a name"),
    ],
)
def test_an_input_that_is_none_is_refused(
    project: Path, text: str, error: type[GPULayerError], words: str
) -> None:
    with pytest.raises(error, match=words):
        pack(command("true"), folder=str(project), inputs=[text])


def test_an_input_folder_goes_whole_whatever_git_says_of_it(
    project: Path, plane: Plane, tmp_path: Path
) -> None:
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("data/\n*.bin\n")
    (project / "data" / "deep").mkdir()
    (project / "data" / "deep" / "w.bin").write_text("w")
    (project / "data" / ".gitignore").write_text("*\n")
    (project / "data" / "large").write_bytes(os.urandom(5000))
    (project / "data" / "to").symlink_to("x.csv")
    (project / "data" / "draft").write_text("left")
    (project / "data" / ".gpulayerignore").write_text("/draft\n")
    folder = str(project)

    def packed(*inputs: str) -> Packed:
        return pack(command("true"), folder=folder, inputs=inputs, places=places(tmp_path))

    first = packed("data/", "data:set/one", "train.py")
    assert [(item["path"], item.get("unpack")) for item in first.spec["inputs"]] == [
        ("data", True), ("set/one", True), ("train.py", None),
    ]  # fmt: skip
    assert first.spec["inputs"][0]["artifact"] == first.spec["inputs"][1]["artifact"]
    said = first.say()[0]
    assert said.startswith(f"input: {project}/data: 5 files, ")
    assert "draft (.gpulayerignore)" in said
    assert "to (a link)" in said
    assert first.send(plane) > 5000
    assert packed("data").send(plane) == 0, "an unchanged folder sends nothing"
    (project / "data" / "deep" / "w.bin").write_text("changed")
    second = packed("data")
    assert 0 < second.send(plane) < 1000
    out = tmp_path / "out"
    extract_bundle(plane.artifacts.path(second.parcels[0].digest), out)
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == [".gitignore", ".gpulayerignore", "deep/w.bin", "large", "x.csv"]
    for text, name in ((".", project.name), ("data/..", project.name), ("data/deep/", "deep")):
        assert packed(text).spec["inputs"][0]["path"] == name


def test_what_is_sent_is_what_the_spec_names(project: Path, plane: Plane, tmp_path: Path) -> None:
    packed = pack(command("python", "train.py"), folder=str(project), inputs=["data/x.csv"])
    assert packed.send(plane) == plane.bytes > 0
    for digest in digests_named(packed.spec):
        assert hashlib.sha256(plane.artifacts.open(digest).read()).hexdigest() == digest
    source = packed.spec["workload"]["source"].removeprefix(ADDRESS)
    extract_bundle(plane.artifacts.path(source), tmp_path / "out")
    assert (tmp_path / "out" / "pkg" / "mod.py").read_text() == "pkg/mod.py"
    assert packed.send(plane) == 0


def test_what_is_named_twice_is_sent_once(project: Path, plane: Plane) -> None:
    packed = pack(command("true"), folder=str(project), inputs=["train.py:a", "train.py:b"])
    assert packed.send(plane) == len("train.py")


def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path / "home"), str(tmp_path / "run"))


def test_a_changed_file_in_a_large_folder_sends_little_more_than_itself(
    project: Path, plane: Plane, tmp_path: Path
) -> None:
    for number in range(500):
        (project / "data" / f"{number}").write_bytes(os.urandom(2000))
    first = pack(command("python", "train.py"), folder=str(project), places=places(tmp_path))
    assert first.send(plane) > 1_000_000
    (project / "data" / "250").write_bytes(b"y" * 3000)
    (project / "tool.sh").unlink()
    second = pack(command("python", "train.py"), folder=str(project), places=places(tmp_path))
    assert second.send(plane) < 3500
    assert plane.artifacts.has(second.spec["workload"]["source"].removeprefix(ADDRESS))


def test_where_the_older_one_is_gone_all_is_sent(
    project: Path, plane: Plane, tmp_path: Path
) -> None:
    first = pack(command("python", "train.py"), folder=str(project), places=places(tmp_path))
    (project / "train.py").write_text("changed")
    second = pack(command("python", "train.py"), folder=str(project), places=places(tmp_path))
    assert second.send(plane) == second.parcels[0].bundle.size  # type: ignore[union-attr]
    assert first.spec != second.spec


def test_our_own_folders_are_never_source(project: Path, tmp_path: Path) -> None:
    home = Places(str(project / "home"), str(tmp_path / "run"))
    (project / "home").mkdir()
    (project / "home" / "db.sqlite").write_text("secrets")
    packed = pack(command("python", "train.py"), folder=str(project), places=home)
    assert paths(packed) == WHOLE


def test_others_of_the_same_kind_bring_the_same(project: Path) -> None:
    packed = pack(function("train:main"), folder=str(project), inputs=["train.py"])
    other = packed.onto({**function("train:main"), "name": "other"})
    assert other["name"] == "other"
    assert list(digests_named(other)) == list(digests_named(packed.spec))
