"""Which Python a line means, by the terminal that it was typed in.

The rule, in order: the first `python` on PATH, if it lies in the environment that `VIRTUAL_ENV`
or `CONDA_PREFIX` names; else a `.venv` in this folder or above it; else the first on PATH; else
`python3`. Before that, the client's own folder is dropped from PATH if the client lives in an
environment made for a tool alone (`uv tool install`, `uvx`, pipx): nobody means that one.

A `.venv` that was not activated counts as activated when the line starts with `python`, `python3`
or a script that only it has; any other line stays as typed. Nothing is started to find out: the
version is read from what the environment's makers write down, and may be unknown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

PYTHON_WORDS = frozenset({"python", "python3"})


class Client:
    """Where the client's own Python lives."""

    __slots__ = ("executable", "prefix", "version")

    def __init__(
        self,
        prefix: str = sys.prefix,
        executable: str = sys.executable,
        version: str = "{}.{}.{}".format(*sys.version_info[:3]),
    ) -> None:
        self.prefix = prefix
        self.executable = executable
        self.version = version


class Interpreter:
    """The choice: what runs, how it is said, and what it changes in line and environment."""

    __slots__ = ("changes", "path", "removed", "version", "why")

    def __init__(self, path: str, version: str, why: str) -> None:
        self.path = path
        """Absolute, links not resolved; empty when the machine has no Python."""
        self.version = version
        """`3.12.7`, `3.12`, or empty when it is written nowhere."""
        self.why = why
        self.changes: dict[str, str] = {}
        """Variables to set for the job."""
        self.removed: tuple[str, ...] = ()
        """Variables to take away."""

    def say(self) -> str:
        """`python 3.12.7 (.venv)`."""
        return f"python {self.version} ({self.why})".replace("  ", " ")

    def to_json(self) -> dict[str, str]:
        return {"path": self.path, "version": self.version, "why": self.why}

    def line(self, argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
        """`argv`, with `python` spelt out where PATH has only a `python3`."""
        words = list(argv)
        path = self.changes.get("PATH", environ.get("PATH", os.defpath))
        if words and words[0] == "python" and self.path and not _which("python", path):
            words[0] = self.path
        return words


def for_line(
    argv: Sequence[str], environ: Mapping[str, str], folder: str, client: Client | None = None
) -> Interpreter:
    """The Python of a command line, typed in `folder` with that environment."""
    client = client or Client()
    path = environ.get("PATH", os.defpath)
    own = _tool_only_bin(client, environ)
    if own:
        path = os.pathsep.join(entry for entry in path.split(os.pathsep) if not _same(entry, own))
    word = argv[0] if argv else "python"
    first = _which("python", path)
    active = _active(first, environ)
    venv = "" if active else _venv_above(folder)
    if venv and word not in PYTHON_WORDS:
        script = os.path.join(venv, "bin", word)
        if "/" in word or _which(word, path) or not _executable(script):
            venv = ""
    if active:
        chosen = Interpreter(first, _version(first, environ, folder, client), active)
    elif venv:
        python = os.path.join(venv, "bin", "python")
        why = os.path.relpath(venv, folder)
        chosen = Interpreter(python, _version(python, environ, folder, client), why)
        chosen.changes = {
            "VIRTUAL_ENV": venv,
            "PATH": os.path.join(venv, "bin") + (os.pathsep + path if path else ""),
        }
        chosen.removed = ("PYTHONHOME",)
        return chosen
    else:
        python = first or _which("python3", path)
        version = _version(python, environ, folder, client) if python else ""
        chosen = Interpreter(python, version, _why_on_path(python, bool(first), folder, environ))
    if own:
        chosen.changes = {"PATH": path}
    return chosen


def for_program(
    environ: Mapping[str, str], folder: str, client: Client | None = None
) -> Interpreter:
    """The Python of a running program: its own. An odd argv[0] leaves `sys.executable` empty;
    then the rule of the command line decides."""
    client = client or Client()
    if client.executable:
        return Interpreter(client.executable, client.version, "this program's")
    return for_line((), environ, folder, client)


def _active(python: str, environ: Mapping[str, str]) -> str:
    """How the environment that holds `python` was activated; empty if none names it."""
    for name, label in (("VIRTUAL_ENV", "active"), ("CONDA_PREFIX", "conda")):
        prefix = environ.get(name, "")
        if python and prefix and _same(os.path.dirname(python), os.path.join(prefix, "bin")):
            return f"{label}: {os.path.basename(os.path.normpath(prefix))}"
    return ""


def _venv_above(folder: str) -> str:
    """The nearest `.venv` with a Python, made by this user or root; empty if there is none."""
    while True:
        venv = os.path.join(folder, ".venv")
        whole = _executable(os.path.join(venv, "bin", "python")) and os.path.isfile(
            os.path.join(venv, "pyvenv.cfg")
        )
        if whole and os.stat(venv).st_uid in (os.getuid(), 0):
            return venv
        above = os.path.dirname(folder)
        if above == folder or not folder:
            return ""
        folder = above


def _tool_only_bin(client: Client, environ: Mapping[str, str]) -> str:
    """The client's bin folder, if its environment exists for the tool alone; else empty.

    uv writes `uv-receipt.toml` and pipx `pipx_metadata.json` into a tool's environment. `uvx`
    makes it below its cache, which holds a CACHEDIR.TAG; each environment made by uv has a tag
    too, so only the folders above are asked. An active environment is meant, wherever it is.
    """
    prefix = client.prefix
    if _same(environ.get("VIRTUAL_ENV", ""), prefix):
        return ""
    markers = ("uv-receipt.toml", "pipx_metadata.json")
    found = any(os.path.isfile(os.path.join(prefix, name)) for name in markers)
    above = os.path.dirname(os.path.realpath(prefix))
    while not found and above != os.path.dirname(above):
        found = os.path.isfile(os.path.join(above, "CACHEDIR.TAG"))
        above = os.path.dirname(above)
    return os.path.join(prefix, "bin") if found else ""


def _why_on_path(python: str, is_python: bool, folder: str, environ: Mapping[str, str]) -> str:
    if not python:
        return "none found"
    if _is_shim(python):
        return "pyenv"
    prefix = os.path.dirname(os.path.dirname(python))
    if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
        return f"{prefix}, first on PATH"
    return "first on PATH" if is_python else "python3, as there is no python"


def _version(python: str, environ: Mapping[str, str], folder: str, client: Client) -> str:
    if client.executable and python == client.executable:
        return client.version
    if _is_shim(python):
        return _pyenv_version(python, environ, folder)
    prefix = os.path.dirname(os.path.dirname(python))
    for line in _read(os.path.join(prefix, "pyvenv.cfg")).splitlines():
        key, _, value = line.partition("=")
        if key.strip() in ("version", "version_info"):
            return ".".join(value.strip().split(".")[:3])
    for name in _names(os.path.join(prefix, "conda-meta")):
        if name.startswith("python-") and name.endswith(".json"):
            return name.split("-")[1]
    for part in reversed(os.path.realpath(python).split("/")):
        for lead in ("cpython-", "pypy-", "python", ""):
            number = part[len(lead) :].split("-")[0]
            if part.startswith(lead) and number[:2] in ("3.", "2.") and _dotted(number):
                return number
    return ""


def _is_shim(python: str) -> bool:
    return os.path.basename(os.path.dirname(python)) == "shims"


def _pyenv_version(shim: str, environ: Mapping[str, str], folder: str) -> str:
    """What the shim would choose: PYENV_VERSION, `.python-version` upward, the global one."""
    root = os.path.dirname(os.path.dirname(shim))
    named = environ.get("PYENV_VERSION", "").replace(":", " ")
    while not named.strip() and folder:
        named = _read(os.path.join(folder, ".python-version"))
        above = os.path.dirname(folder)
        folder = "" if above == folder else above
    version = ((named.strip() or _read(os.path.join(root, "version"))).split() or [""])[0]
    if version == "system" or not version:
        return ""
    known = [name for name in _names(os.path.join(root, "versions")) if _dotted(name)]
    near = [name for name in known if name == version or name.startswith(version + ".")]
    return max(near, key=lambda name: [int(n) for n in name.split(".")]) if near else version


def _which(name: str, path: str) -> str:
    """First executable file of that name; an empty entry of PATH is the current folder."""
    for entry in path.split(os.pathsep):
        file = os.path.join(entry or os.curdir, name)
        if _executable(file):
            return file
    return ""


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _same(one: str, other: str) -> bool:
    return bool(one and other) and os.path.realpath(one) == os.path.realpath(other)


def _dotted(text: str) -> bool:
    return all(part.isdigit() for part in text.split("."))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
