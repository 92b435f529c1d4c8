"""The Python that an environment lies on: which it is, where its packages are, which it has.

It is asked once, by starting it, and the answer is kept in a file together with what it depends
on: the executable, its `pyvenv.cfg`, the folders of its packages. While none of these has changed,
a look at them is all it takes. What a pyenv shim stands for depends on where it is started, so one
is asked each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpulayer.errors import PreparationError

ASK_SECONDS = 60.0


Environ = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Base:
    python: str
    """What it calls itself: a virtual environment's own name for it."""
    version: str
    sites: tuple[str, ...]
    """Folders of packages, as `site` sees them; what their own .pth files add comes with them."""
    folders: tuple[str, ...]
    """All folders in which a distribution may be recorded."""
    distributions: Mapping[str, str]
    """Normalised name -> version."""
    markers: Mapping[str, str]
    """Of PEP 508."""


class Bases:
    """What is known of the Pythons of this machine. Thread-safe: an answer may be asked twice."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}

    def of(self, python: str, environ: Environ, cwd: str = "/") -> Base:
        """`environ` gives the variables with which it is asked; `cwd` matters to a shim alone.
        Raises `interpreter-gone` where it does not answer as a Python 3.8 or newer does."""
        if os.path.basename(os.path.dirname(python)) == "shims":
            return _base(_ask(python, environ(), cwd))
        file = os.path.join(self._folder, hashlib.sha256(os.fsencode(python)).hexdigest()[:32])
        known = self._known.get(python) or _read(file)
        if known is None or known["stamps"] != _stamps(known["stamps"]):
            answer = _ask(python, environ(), "/")
            prefix = os.path.dirname(os.path.dirname(python))
            paths = (python, os.path.join(prefix, "pyvenv.cfg"), *answer["folders"])
            known = {"answer": answer, "stamps": _stamps(paths)}
            _write(file, known)
        self._known[python] = known
        return _base(known["answer"])


def _base(answer: Mapping[str, Any]) -> Base:
    sites, folders = tuple(answer["sites"]), tuple(answer["folders"])
    return Base(**{**answer, "sites": sites, "folders": folders})


def _stamps(paths: Any) -> dict[str, list[int] | None]:
    found: dict[str, list[int] | None] = {}
    for path in paths:
        try:
            seen = os.stat(path)
            found[path] = [seen.st_ino, seen.st_mtime_ns]
        except OSError:
            found[path] = None
    return found


def _read(file: str) -> dict[str, Any] | None:
    try:
        with open(file, encoding="ascii") as text:
            known = json.load(text)
        _base(known["answer"])
        return known if isinstance(known["stamps"], dict) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(file: str, known: Mapping[str, Any]) -> None:
    """Best effort: without it the Python is asked once more."""
    fresh = f"{file}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
        with open(fresh, "w", encoding="ascii") as text:
            json.dump(known, text)
        os.replace(fresh, file)
    except OSError:
        pass


def _ask(python: str, environ: Mapping[str, str], cwd: str) -> dict[str, Any]:
    why = ""
    try:
        asked = subprocess.run(
            [python, "-E", "-c", _QUESTION],
            env=dict(environ),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_SECONDS,
            check=False,
        )
        answer: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
        return asdict(_base(answer))
    except subprocess.TimeoutExpired:
        why = f"it did not answer within {ASK_SECONDS:g} s"
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, IndexError, TypeError, KeyError):
        last = os.fsdecode(asked.stderr).splitlines()[-1:]
        why = last[0] if last else "it does not answer as a Python 3.8 or newer does"
    raise PreparationError(
        "interpreter-gone", f"the Python at {python} cannot be used for an environment", why=why
    )


_QUESTION = """
import importlib.metadata, json, os, platform, re, site, sys, sysconfig
sites = [path for path in site.getsitepackages() if os.path.isdir(path)]
if site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages()):
    sites.insert(0, site.getusersitepackages())
own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
own |= {os.path.join(path, "lib-dynload") for path in own}
folders = []
for path in sites + sys.path[1:]:
    if os.path.isdir(path) and os.path.realpath(path) not in own and path not in folders:
        folders.append(path)
found = {}
for one in importlib.metadata.distributions(path=folders):
    name = one.metadata["Name"]
    if name and one.version:
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), one.version)
i = sys.implementation.version
full = "{0.major}.{0.minor}.{0.micro}".format(i)
if i.releaselevel != "final":
    full += i.releaselevel[0] + str(i.serial)
print(json.dumps({
    "python": sys.executable,
    "version": platform.python_version(),
    "sites": sites,
    "folders": folders,
    "distributions": found,
    "markers": {
        "implementation_name": sys.implementation.name,
        "implementation_version": full,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "platform_python_implementation": platform.python_implementation(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    },
}))
"""
