"""A folder of tiny packages that installers take for an index, and a Python to lie below.

packages.wheel("gamma", "1.0", needs=["alpha"])
packages.waiting("slow")        its build tells `began`, and goes on when it is let go
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

_BACKEND = """
import os, subprocess, sys
HERE = {here!r}
def build_wheel(folder, config_settings=None, metadata_directory=None):
    if not os.path.exists(HERE + "/go"):
        began = os.open(HERE + "/began", os.O_WRONLY)
        # One that left the group and the session, and cleared its environment.
        subprocess.Popen(
            [sys.executable, "-c", "import signal; signal.pause()"],
            start_new_session=True, pass_fds=[began], env={strays_environ},
        )
        os.write(began, b"%d\\n" % os.getpid())
        import signal
        signal.pause()
    name = "{name}-1.0-py3-none-any.whl"
    with open(HERE + "/{name}.built", "rb") as built, open(folder + "/" + name, "wb") as copy:
        copy.write(built.read())
    return name
"""


class Packages:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.index = folder / "index"
        self.index.mkdir()
        settings = f'no-index = true\nfind-links = ["{self.index}"]\n'
        (folder / "uv.toml").write_text(settings)

    @property
    def environ(self) -> dict[str, str]:
        """By which uv and pip find these packages and nothing else."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "UV_CONFIG_FILE": str(self.folder / "uv.toml"),
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "UV_HTTP_RETRIES": "0",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "PIP_CACHE_DIR": str(self.folder / "pip"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_RETRIES": "0",
        }

    def wheel(
        self,
        name: str,
        version: str,
        *,
        needs: Sequence[str] = (),
        extras: Sequence[str] = (),
        tag: str = "py3-none-any",
    ) -> None:
        path = self.index / f"{name}-{version}-{tag}.whl"
        path.write_bytes(_wheel(name, version, needs, extras))

    def waiting(self, name: str, *, is_marked: bool = False) -> Began:
        """A package that is built where it is installed, and whose build does not end. It leaves
        a process behind that no group and, unless `is_marked`, no variable tells."""
        here = self.folder / name
        here.mkdir()
        os.mkfifo(here / "began")
        (here / f"{name}.built").write_bytes(_wheel(name, "1.0", (), ()))
        environ = "dict(os.environ)" if is_marked else "dict()"
        backend = _BACKEND.format(here=str(here), name=name, strays_environ=environ)
        project = '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n'
        project += f'[project]\nname = "{name}"\nversion = "1.0"\n'
        with tarfile.open(self.index / f"{name}-1.0.tar.gz", "w:gz") as tar:
            for file, text in (
                ("PKG-INFO", f"Metadata-Version: 2.2\nName: {name}\nVersion: 1.0\n"),
                ("pyproject.toml", project),
                ("b.py", backend),
            ):
                entry = tarfile.TarInfo(f"{name}-1.0/{file}")
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text.encode()))
        return Began(here)


class Began:
    """The other end of a build that waits."""

    def __init__(self, here: Path) -> None:
        self._here = here
        self._fd = -1

    def wait(self) -> int:
        """The process of the build, once it runs."""
        self._fd = os.open(self._here / "began", os.O_RDONLY)
        return int(os.read(self._fd, 64))

    def until_nobody_is_left(self) -> None:
        """Every process of the build holds the pipe for as long as it lives; so do those of
        another try that began meanwhile, and said so."""
        while os.read(self._fd, 64):
            pass
        os.close(self._fd)

    def let_go(self) -> None:
        """From now on its builds end well."""
        (self._here / "go").touch()


class BasePython:
    """A virtual environment with a few packages in it."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(
            [sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], check=True
        )
        self.python = str(folder / "bin" / "python")
        self.site = next((folder / "lib").glob("*/site-packages"))

    def has(self, packages: Packages, name: str, version: str) -> None:
        """Unpacks one of these packages, in the place of another version."""
        for old in self.site.glob(f"{name}*"):
            shutil.rmtree(old)
        with zipfile.ZipFile(packages.index / f"{name}-{version}-py3-none-any.whl") as wheel:
            wheel.extractall(self.site)

    def has_pip(self) -> None:
        ours = Path(sysconfig.get_path("purelib"))
        pip = distribution("pip")
        shutil.copytree(ours / "pip", self.site / "pip")
        name = f"pip-{pip.version}.dist-info"
        shutil.copytree(ours / name, self.site / name)

    def files(self) -> dict[str, int]:
        """Path -> size, of everything in it but what Python compiles."""
        return {
            str(path): path.lstat().st_size
            for path in self.site.parent.parent.parent.rglob("*")
            if "__pycache__" not in path.parts and not path.is_dir()
        }


@contextmanager
def own_process(program: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that runs this text, and is gone afterwards."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *argv], stdout=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def _wheel(name: str, version: str, needs: Sequence[str], extras: Sequence[str]) -> bytes:
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    about += "".join(f"Provides-Extra: {extra}\n" for extra in extras)
    about += "".join(f"Requires-Dist: {need}\n" for need in needs)
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"version = {version!r}\n",
        f"{info}/METADATA": about,
        f"{info}/WHEEL": kind,
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return data.getvalue()
