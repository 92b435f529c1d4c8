"""Machines made from documentation: a folder each, of canned answers and files.

A file of answers says in its head where its form comes from, which command it answers and how that
ended. `files.txt` holds the files that discovery reads. A command that no file answers is missing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpulayer.gpu.machine import Completed, Machine, Runner
from gpulayer.gpu.nvidia import WSL_SMI

HERE = Path(__file__).parent
NO_NVML = Completed(0, '{"error": 12, "text": "NVML Shared Library Not Found"}\n')


@dataclasses.dataclass
class Fake:
    """A machine, and the commands that it was asked."""

    machine: Machine
    asked: list[str]


def fake(
    name: str,
    folder: Path,
    *,
    platform: str = "linux",
    environ: Mapping[str, str] | None = None,
    answers: Mapping[str, Completed] | None = None,
    files: Mapping[str, str] | None = None,
) -> Fake:
    """The machine `name` (none: an empty one), with its files laid out under `folder`."""
    canned = {**(_answers(HERE / name) if name else {}), **(answers or {})}
    written = {**(_files(HERE / name) if name else {}), **(files or {})}
    for path, text in written.items():
        file = folder / "root" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for command in canned:
        program = programs / command.split()[0]
        elsewhere = program.name == "nvidia-smi" and WSL_SMI in written
        if program.name.endswith("-smi") and not elsewhere:
            program.write_text("")
            program.chmod(0o755)
    asked: list[str] = []
    machine = Machine(
        run=_runner(canned, asked),
        environ={"PATH": str(programs), **(environ or {})},
        root=folder / "root",
        platform=platform,
        python="python",
    )
    return Fake(machine, asked)


def _runner(canned: Mapping[str, Completed], asked: list[str]) -> Runner:
    def run(argv: Sequence[str], seconds: float) -> Completed:
        probe = argv[-1].endswith("nvml_child.py")
        command = "nvml" if probe else " ".join([Path(argv[0]).name, *argv[1:]])
        asked.append(command)
        return canned.get(command, NO_NVML if probe else Completed(None, problem="missing"))

    return run


def _answers(folder: Path) -> dict[str, Completed]:
    found = {}
    for file in sorted(folder.glob("*.txt")):
        head, _, body = file.read_text().partition("---\n")
        assert "Made from documentation, not recorded" in head, file
        lines = head.splitlines()
        command = next((line[4:] for line in lines if line.startswith("# $ ")), None)
        if command is not None:
            timeout = "# timeout" in lines
            found[command] = Completed(None, problem="timeout") if timeout else Completed(0, body)
    return found


def _files(folder: Path) -> dict[str, str]:
    _, _, body = (folder / "files.txt").read_text().partition("---\n")
    sections = body.split("== ")[1:]
    return {name: text for name, _, text in (section.partition("\n") for section in sections)}
