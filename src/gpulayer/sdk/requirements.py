"""What a job requires, from where people write it down: requirements files, PEP 723 headers.

A spec holds single requirements (PEP 508), nothing else: no option, address or path. So a file is
read here, line by line, and a line that is none is refused where it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpulayer.contracts.requirement_lines import MEND, requirement_fault
from gpulayer.errors import NotFoundError, UsageError

_HEADER = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""The regular expression that PEP 723 gives."""
_FILE_ENDS = (".txt", ".in", ".toml", ".lock")
_COMMENT = re.compile(r"(^|\s+)#.*$")
HEADER_BYTES = 1 << 20
"""A script is looked through so far."""


def requirements_of(texts: Sequence[str], folder: str = "") -> list[str]:
    """Of `-r`: each is a requirement, or a file of them; `folder` instead of this process's own,
    which may be gone. Raises UsageError, `file-not-found`."""
    found: list[str] = []
    for text in texts:
        path = os.path.join(folder, text)
        if os.path.isfile(path) or _names_a_file(text):
            found += _lines(text, path)
        else:
            _require(text, "-r")
            found.append(text)
    return found


def _names_a_file(text: str) -> bool:
    """One that is not there must not be taken for a package: `requirements.txt` is a name too."""
    is_path = os.sep in text and "://" not in text and not text.startswith("-")
    return is_path or text.endswith(_FILE_ENDS)


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


def _lines(name: str, path: str) -> Iterator[str]:
    if not name.endswith((".txt", ".in")) and name.endswith(_FILE_ENDS):
        raise UsageError(
            "usage",
            f"-r {name}: only requirements files are read yet",
            why="its own tool writes one: uv export --no-hashes --no-emit-project "
            "-o requirements.txt",
            hint="gpulayer help requirements",
        )
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise NotFoundError(
            "file-not-found", f"-r: {name} cannot be read: {why}", hint="ls"
        ) from None
    for number, line in enumerate(lines, 1):
        text = _COMMENT.sub("", line).strip()
        if text:
            _require(text, f"{name}:{number}")
            yield text


def _require(text: str, where: str) -> None:
    wrong = requirement_fault(text)
    if wrong is not None:
        raise UsageError("usage", f"{where} {wrong}", why=MEND, hint="gpulayer help requirements")


def _bad_header(name: str, why: str) -> UsageError:
    return UsageError("usage", f"{name}: its PEP 723 header cannot be read", why=why)
