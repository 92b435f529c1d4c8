"""Real object stores for tests: two servers that have nothing in common but the protocol.

moto      keeps all in memory; knows conditions, ranges and presigned URLs; checks no signature
rclone    a folder behind S3; checks signatures; knows no conditions and no ranges
"""

from __future__ import annotations

import http.client
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gpulayer.artifacts import s3
from gpulayer.artifacts.bucket import BucketArtifacts
from gpulayer.artifacts.s3 import Bucket
from gpulayer.clock import SystemClock
from gpulayer.sdk.waiting import look_again

KEY, SECRET = "gpulayerak00000000", "gpulayersecret0000000000"


class ObjectStore:
    """One server. `kill` and `start` end it and begin it anew at the same port."""

    name = ""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: where its bytes are, where it keeps them in one."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="gpl-s3-"))
        self._numbers = itertools.count(1)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> Mapping[str, str]:
        return environ_for(self.endpoint)

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._argv(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        clock = SystemClock()
        end = clock.monotonic() + 60
        while not self._answers():
            assert clock.monotonic() < end, f"{self.name} does not answer"
            look_again()

    def freeze(self, frozen: bool = True) -> None:
        """It takes connections and says nothing, until it goes on."""
        self._process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)
        if frozen:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_bucket(self) -> str:
        """A new one."""
        name = f"bucket-{next(self._numbers)}"
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self._make(line, name)
        line.close()
        return name

    def artifacts(self, folder: Path, address: str, **more: str) -> BucketArtifacts:
        return BucketArtifacts(Bucket(s3.parse(address), {**self.environ, **more}), folder)

    def _argv(self) -> list[str]:
        raise NotImplementedError

    def _make(self, line: http.client.HTTPConnection, name: str) -> None:
        raise NotImplementedError

    def _answers(self) -> bool:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            line.request("GET", "/")
            return line.getresponse().status < 500
        except OSError:
            return False
        finally:
            line.close()


class Moto(ObjectStore):
    name = "moto"

    def _argv(self) -> list[str]:
        program = os.path.join(os.path.dirname(sys.executable), "moto_server")
        return [sys.executable, program, "-H", "127.0.0.1", "-p", str(self.port)]

    def _make(self, line: http.client.HTTPConnection, name: str) -> None:
        line.request("PUT", f"/{name}")
        assert line.getresponse().status == 200


class Rclone(ObjectStore):
    name = "rclone"

    def _argv(self) -> list[str]:
        program = os.path.join(os.path.dirname(sys.executable), "rclone")
        address = ["--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}"]
        for number in range(1, 100):  # those that are made later it sees minutes later
            (self.folder / f"bucket-{number}").mkdir(exist_ok=True)
        return [program, "serve", "s3", "--config", "", *address, str(self.folder)]

    def _make(self, line: http.client.HTTPConnection, name: str) -> None:
        assert (self.folder / name).is_dir()


def environ_for(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
    }
