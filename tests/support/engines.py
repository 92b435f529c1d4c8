"""Podman and Docker as they are, each with storage of its own, and a registry on loopback.

The image is a tar of one static program, busybox under its many names, so that all of it is made
in a moment. An engine that is not installed skips its tests; `.ci/run` installs both.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime.processes import end_marked
from tests.support import torch_stub
from tests.support.local_home import SECONDS, watched

BUSYBOX = "/bin/busybox"
PROGRAMS = "sh cat echo sleep true false env id pwd wc head dd tr printf kill touch ls seq tail"
NAME = "localhost/busy:1"
_MARK = "GPULAYER_TEST_ENGINE"


def require(*programs: str) -> None:
    """Skip where one is missing."""
    for program in programs:
        if shutil.which(program) is None and not os.path.exists(program):
            pytest.skip(f"needs {program}: see .ci/run")


def busybox_tar(**more: bytes) -> bytes:
    """An image's root folder; `more` are further files of /."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("bin", "tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        program = Path(BUSYBOX).read_bytes()
        files = {"bin/busybox": program, **more}
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        plain = tarfile.TarInfo("etc/plain")
        tar.addfile(plain)
        for name in PROGRAMS.split():
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return out.getvalue()


def python_tar() -> bytes:
    """The same with the system's own Python as `python3`, and what acts as torchrun."""
    python, library = Path("/usr/bin/python3").resolve(), Path("/usr/lib") / "python3"
    library = library.with_name(python.name)
    require("ldd", str(python), str(library))
    modules = [
        path
        for path in library.rglob("*")
        if path.is_file() and not _SKIPPED.intersection(path.relative_to(library).parts)
    ]
    shared = [python, *(path for path in modules if path.suffix == ".so")]
    told = subprocess.run(["ldd", *shared], capture_output=True, text=True, check=True).stdout
    found = {word for word in told.split() if word.startswith("/") and not word.endswith(":")}
    files = {path: Path(path).read_bytes() for path in found if os.path.exists(path)}
    files |= {str(path): path.read_bytes() for path in modules}
    files["/usr/bin/python3"] = python.read_bytes()
    site = "/usr/lib/python3/dist-packages/torch"
    files |= {f"{site}/{name}": text.encode() for name, text in torch_stub.FILES.items()}
    return busybox_tar(**{path.lstrip("/"): data for path, data in files.items()})


_SKIPPED = frozenset("test tests __pycache__ idlelib lib2to3 ensurepip tkinter turtledemo".split())


class Engine:
    """One that has the image `NAME`. `environ` lets a worker find it and no other."""

    kind = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ: dict[str, str] = {"GPULAYER_ENGINE": self.kind}
        self.pinned = ""
        """The image by its digest."""

    def __call__(self, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.kind, *words],
            env={**os.environ, **self.environ, _MARK: str(self.folder)},
            capture_output=True, text="input" not in how, timeout=SECONDS, check=False, **how,
        )  # fmt: skip

    def loaded(self, tar: bytes, name: str = NAME, machine: str = "") -> None:
        """`machine`: the kind for which it says that it is made, of Podman."""
        kind = [f"--arch={machine}"] if machine else []
        done = self("import", *kind, "-", name, input=tar)
        assert done.returncode == 0, done

    def containers(self) -> list[str]:
        """All there are, also those that have ended."""
        return self("ps", "--all", "--format", "{{.Names}}").stdout.split()

    def close(self) -> None:
        raise NotImplementedError


class Podman(Engine):
    kind = "podman"

    def __init__(self, folder: Path) -> None:
        require("podman", "runc", "conmon", BUSYBOX)
        super().__init__(folder)
        files = {
            "storage.conf": '[storage]\ndriver = "overlay"\n'
            f'runroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n',
            "containers.conf": '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
            'events_logger = "file"\n',
            "registries.conf": "unqualified-search-registries = []\n",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
            variable = {"registries.conf": "CONTAINERS_REGISTRIES_CONF"}.get(
                name, f"CONTAINERS_{name.partition('.')[0].upper()}_CONF"
            )
            self.environ[variable.replace("CONTAINERS_CONTAINERS", "CONTAINERS")] = str(
                folder / name
            )
        self.loaded(busybox_tar())
        digest = self("image", "inspect", "--format", "{{.Digest}}", NAME).stdout.strip()
        self.pinned = f"localhost/busy@{digest}"

    def trust(self, registry: str) -> None:
        """Speak to it without TLS."""
        text = f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n'
        (self.folder / "registries.conf").write_text(text)

    def close(self) -> None:
        self("rm", "--all", "--force")
        end_marked(f"{_MARK}={self.folder}".encode())
        for place in ("graph/overlay", "graph"):
            subprocess.run(["umount", "-l", self.folder / place], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Docker(Engine):
    kind = "docker"

    def __init__(self, folder: Path) -> None:
        require("docker", "dockerd", "containerd", "runc", BUSYBOX)
        super().__init__(folder)
        endpoint = f"unix://{folder}/d.sock"
        self.environ["DOCKER_HOST"] = endpoint
        self._daemon = subprocess.Popen(
            ["dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec", "-H",
             endpoint, "-p", folder / "pid", "--bridge=none", "--iptables=false"],
            env={**os.environ, _MARK: str(folder)}, stdin=subprocess.DEVNULL,
            stdout=(folder / "log").open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        for _ in range(200):
            if self("version").returncode == 0:
                break
            assert self._daemon.poll() is None, (folder / "log").read_text()[-2000:]
        self.loaded(busybox_tar())
        identity = self("image", "inspect", "--format", "{{.Id}}", NAME).stdout.strip()
        self.pinned = f"localhost/busy@{identity}"

    def trust(self, registry: str) -> None:
        """It speaks so to all of loopback."""

    def close(self) -> None:
        for name in self.containers():
            self("rm", "--force", name)
        self._daemon.terminate()
        try:
            self._daemon.wait(SECONDS)
        finally:
            end_marked(f"{_MARK}={self.folder}".encode())
        names = self.folder / "exec/netns/default"
        subprocess.run(["umount", "-l", names], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


ENGINES: Mapping[str, type[Podman] | type[Docker]] = {"podman": Podman, "docker": Docker}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Registry:
    """docker-registry on a port of its own; its blobs are files that a test may spoil."""

    def __init__(self, folder: Path) -> None:
        require("docker-registry")
        self.folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        settings = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
            "http": {"addr": self.address},
        }
        (folder / "r.yml").write_text(json.dumps(settings))
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            ["docker-registry", "serve", folder / "r.yml"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        while True:
            assert self._process.poll() is None, (folder / "log").read_text()[-2000:]
            host, _, port = self.address.partition(":")
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return

    def pushed(self, engine: Engine, name: str, tar: bytes, machine: str = "") -> str:
        """An image of that content, there and not at the engine any more; its reference."""
        tag = f"{self.address}/{name}:1"
        engine.loaded(tar, tag, machine)
        done = engine("push", tag)
        assert done.returncode == 0, done
        assert engine("rmi", tag).returncode == 0
        return tag

    def fetched(self, name: str) -> int:
        """How often one of its layers was asked for."""
        lines = (self.folder / "log").read_text().splitlines()
        wanted = f"/v2/{name}/blobs/sha256:"
        return sum('"GET ' in line and wanted in line for line in lines)

    def spoil(self, name: str) -> None:
        """Other bytes than before under the digest of its largest layer."""
        layers = self.folder / "blobs/docker/registry/v2/repositories" / name / "_layers/sha256"
        digests = [path.name for path in layers.iterdir()]
        blobs = self.folder / "blobs/docker/registry/v2/blobs/sha256"
        files = [blobs / digest[:2] / digest / "data" for digest in digests]
        largest = max(files, key=lambda file: file.stat().st_size)
        data = bytearray(largest.read_bytes())
        data[len(data) // 2] ^= 0xFF
        largest.write_bytes(data)
        assert hashlib.sha256(data).hexdigest() != largest.parent.name

    def close(self) -> None:
        if self._process.poll() is None:
            with watched(self._process.pid) as gone:
                self._process.send_signal(signal.SIGTERM)
                gone(5)
            self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
