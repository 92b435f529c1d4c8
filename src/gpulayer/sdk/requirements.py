"""What a job requires, from where people write it down: requirements files, PEP 723 headers.

A spec holds single requirements (PEP 508), and the name of one file that travels with the source. A
file of plain requirements is read here, line by line, and a line that is none is refused where it
stands. A lock is left to the worker: uv.lock, pylock.toml, a requirements file with hashes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpulayer.contracts.requirement_files import (
    ALLOW,
    LOCK,
    PLAIN_ENDS,
    PROJECT,
    is_pylock,
    lines_of,
    names_a_file,
)
from gpulayer.contracts.requirement_lines import MEND, requirement_fault
from gpulayer.errors import NotFoundError, UsageError

_HEADER = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""The regular expression that PEP 723 gives."""
HEADER_BYTES = 1 << 20
"""A script is looked through so far."""


def requirements_of(texts: Sequence[str], folder: str = "") -> list[str]:
    """Of `-r`: each is a requirement, or a file of them; `folder` instead of this process's own,
    which may be gone. A file that the worker is to read stays a name, which `is_file` knows. Raises
    UsageError, `file-not-found`."""
    found: list[str] = []
    for text in texts:
        path = os.path.join(folder, text)
        if os.path.isfile(path) or is_file(text):
            found += _lines(text, path, folder)
        else:
            _require(text, "-r")
            found.append(text)
    return found


def is_file(text: str) -> bool:
    """One that is not there must not be taken for a package: `requirements.txt` is a name too."""
    is_path = os.sep in text and "://" not in text and not text.startswith("-")
    return is_path or names_a_file(text)


def with_header(
    workload: Mapping[str, Any], options: Mapping[str, Any], folder: str = ""
) -> dict[str, Any]:
    """The options of a job, with what the header of its script (PEP 723) adds to them."""
    script = _script(workload)
    header = header_of(script, folder) if script else {}
    said = dict(options)
    if needs := [str(need) for need in header.get("dependencies") or ()]:
        said["requirements"] = [*(said.get("requirements") or ()), *needs]
    if header.get("requires-python") and not said.get("python"):
        said["python"] = str(header["requires-python"])
    return said


def _script(workload: Mapping[str, Any]) -> str:
    """Of `python FILE ...`, or the one that all ranks run; else empty."""
    if workload["kind"] == "distributed":
        return str(workload.get("entrypoint") or "")
    if workload["kind"] != "command":
        return ""
    words: Sequence[str] = workload["command"]
    is_script = len(words) > 1 and words[0] == "python" and not words[1].startswith("-")
    return words[1] if is_script else ""


def header_of(script: str, folder: str) -> Mapping[str, Any]:
    """The PEP 723 header of a script; {} where there is none. Raises UsageError."""
    try:
        with open(os.path.join(folder, script), encoding="utf-8") as file:
            text = file.read(HEADER_BYTES)
    except (OSError, UnicodeDecodeError):
        return {}  # python itself will say what is wrong with it
    found = [m for m in _HEADER.finditer(text) if m["type"] == "script"]
    if not found:
        return {}
    if len(found) > 1:
        raise _bad_header(script, "it has several `script` blocks (PEP 723)")
    import tomllib

    content = "".join(
        line[2:] if line.startswith("# ") else line[1:]
        for line in found[0]["content"].splitlines(keepends=True)
    )
    try:
        header = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise _bad_header(script, str(error)) from None
    needs = header.get("dependencies", [])
    if not isinstance(needs, list):
        raise _bad_header(script, "dependencies is not a list")
    for number, need in enumerate(needs):
        _require(str(need), f"the header of {script}: dependencies[{number}]")
    return header


def _lines(name: str, path: str, folder: str) -> Iterator[str]:
    base = os.path.basename(name)
    if is_pylock(base) or base in (LOCK, PROJECT):
        yield _inside(name, path, folder)
        return
    lines = list(lines_of(_text(name, path)))
    is_plain = name.endswith(PLAIN_ENDS)
    if not is_plain and (names_a_file(name) or any(line.hashes for line in lines)):
        raise UsageError(
            "usage",
            f"-r {name} is called like none of the files that are read",
            why=f"they are NAME.txt, NAME.in, {PROJECT}, {LOCK} and pylock.toml",
            hint="gpulayer help requirements",
        )
    is_hashed = any(line.hashes for line in lines)
    if os.environ.get(ALLOW) == "any" and name.endswith(PLAIN_ENDS):
        yield _inside(name, path, folder)
        return
    for line in lines:
        _require(line.text, f"{name}:{line.number}")
        if is_hashed and not line.hashes:
            raise UsageError(
                "usage",
                f"{name}:{line.number} is {line.text!r}, without its hash",
                why="a file with hashes is a lock: each of its lines has a version and hashes",
                hint="gpulayer help requirements",
            )
    if is_hashed:
        yield _inside(name, path, folder)
    else:
        yield from (line.text for line in lines)


def _text(name: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise NotFoundError(
            "file-not-found", f"-r: {name} cannot be read: {why}", hint="ls"
        ) from None


def _inside(name: str, path: str, folder: str) -> str:
    """Its path in the folder, which is what travels."""
    _text(name, path)
    folder = os.path.abspath(folder)
    within = os.path.relpath(os.path.abspath(path), folder)
    if within.startswith(os.pardir):
        raise UsageError(
            "usage",
            f"-r {name} is not in this folder",
            why="a lock goes along with the folder that the job runs in",
            hint=f"cd {os.path.dirname(os.path.abspath(path))}",
        )
    return within


def _require(text: str, where: str) -> None:
    wrong = requirement_fault(text)
    if wrong is not None:
        raise UsageError("usage", f"{where} {wrong}", why=MEND, hint="gpulayer help requirements")


def _bad_header(name: str, why: str) -> UsageError:
    return UsageError("usage", f"{name}: its PEP 723 header cannot be read", why=why)
