"""Where the local plane's files and sockets are.

    HOME     plane.lock db.sqlite artifacts/ logs/ tasks/ sup/ and the logs of our own processes
    RUNTIME  p.sock s.sock start.lock envelopes/

HOME is `$GPULAYER_HOME`, or `gpulayer` in the platform's folder for user data. On a network file
system a lock cannot be trusted and a database must not live there, so both move to local disk
under a name made of host and folder; artifacts and logs stay, in a folder of this host's.

RUNTIME is private to the user and named by HOME. Two terminals may disagree about it (one has
`XDG_RUNTIME_DIR`, a cron job has not), so a plane writes its own into `plane.lock`, and that one
counts for as long as it holds a socket. Socket paths are capped at 107 bytes (unix(7)).

Only a client creates these folders; a daemon that did would bring a deleted one back.
Stdlib only and quick to import: every command starts here.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence

from gpulayer.runtime.digest import sha256_hex

SOCKET_PATH_LIMIT = 103 if sys.platform == "darwin" else 107
SHARED_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108  a private folder is made and checked there
NETWORK_FILESYSTEMS = frozenset(
    "nfs nfs4 cifs smb2 smb3 smbfs afs afpfs lustre gpfs beegfs ceph glusterfs 9p panfs pvfs2 "
    "orangefs wekafs webdav fuse.sshfs fuse.glusterfs fuse.ceph fuse.s3fs fuse.gcsfuse "
    "fuse.rclone fuse.juicefs fuse.beegfs fuse.mountpoint-s3".split()
)


class Places:
    """Paths of one plane. Plain strings; nothing is created or checked by making one."""

    __slots__ = ("bulk", "home", "notice", "runtime", "state")

    def __init__(self, home: str, runtime: str, *, state: str = "", bulk: str = "") -> None:
        self.home = home
        self.runtime = runtime
        self.state = state or home
        """Local disk: database, locks, task folders. HOME itself, unless a network folder."""
        self.bulk = bulk or home
        """Artifacts and logs."""
        self.notice = ""
        """What a person must be told once about where things are."""

    @classmethod
    def find(
        cls, environ: Mapping[str, str] | None = None, machine: Machine | None = None
    ) -> Places:
        """The places that these variables (by default our own) mean. Reads only.

        Raises `folder-unsafe` when the runtime folder belongs to somebody else.
        """
        machine = machine or Machine()
        environ = os.environ if environ is None else environ
        home = os.path.realpath(environ.get("GPULAYER_HOME") or _data_folder(environ, machine))
        state = bulk = notice = ""
        mounts = machine.mounts()
        kind = filesystem_of(home, mounts)
        disk = machine.shared_folders[-1]
        if kind in NETWORK_FILESYSTEMS and filesystem_of(disk, mounts) not in NETWORK_FILESYSTEMS:
            key = f"{machine.host}-{_digest(home)}"
            state = os.path.join(_user_folder(disk, machine), key)
            bulk = os.path.join(home, f"host-{machine.host}")
            notice = f"{home} is on a network file system ({kind}): database and locks: {state}"
        runtime = _recorded_runtime(os.path.join(state or home, "plane.lock"), machine)
        places = cls(home, runtime or _runtime(environ, home, machine), state=state, bulk=bulk)
        places.notice = notice
        return places

    @classmethod
    def from_argv(cls, argv: Sequence[str]) -> Places:
        """The inverse of `argv`, for the daemons."""
        home, runtime, state, bulk = argv
        return cls(home, runtime, state=state, bulk=bulk)

    def argv(self) -> list[str]:
        return [self.home, self.runtime, self.state, self.bulk]

    @property
    def plane_socket(self) -> str:
        return os.path.join(self.runtime, "p.sock")

    @property
    def supervisor_socket(self) -> str:
        return os.path.join(self.runtime, "s.sock")

    @property
    def start_lock(self) -> str:
        return os.path.join(self.runtime, "start.lock")

    @property
    def envelopes(self) -> str:
        return os.path.join(self.runtime, "envelopes")

    @property
    def plane_lock(self) -> str:
        return os.path.join(self.state, "plane.lock")

    @property
    def database(self) -> str:
        return os.path.join(self.state, "db.sqlite")

    @property
    def supervisor_dir(self) -> str:
        return os.path.join(self.state, "sup")

    @property
    def tasks(self) -> str:
        return os.path.join(self.state, "tasks")

    @property
    def artifacts(self) -> str:
        return os.path.join(self.bulk, "artifacts")

    @property
    def logs(self) -> str:
        return os.path.join(self.bulk, "logs")

    def process_log(self, kind: str) -> str:
        """Where the daemon of that kind (plane, agent, supervisor) writes its own last words."""
        return os.path.join(self.state, f"{kind}.log")

    def create(self, machine: Machine | None = None) -> None:
        """Make what is missing, 0700. Raises `folder-unsafe`, `read-only` or `disk-full`."""
        machine = machine or Machine()
        for folder in dict.fromkeys((self.home, self.state, self.bulk)):
            _make(folder, machine)
            _require(folder, machine, forbidden=stat.S_IWGRP | stat.S_IWOTH)
        for folder in (self.supervisor_dir, self.tasks, self.logs, os.path.dirname(self.runtime)):
            _make(folder, machine)
        for folder in (self.runtime, self.envelopes):
            _make(folder, machine)
            _require(folder, machine, forbidden=stat.S_IRWXG | stat.S_IRWXO)

    def say_once(self) -> str:
        """`notice` the first time that anybody asks for this home, then an empty string."""
        if not self.notice:
            return ""
        try:
            os.close(os.open(os.path.join(self.state, "said"), os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            return ""
        return self.notice


class Machine:
    """What the rules above ask of the machine; tests give another."""

    def __init__(
        self,
        uid: int | None = None,
        host: str = "",
        mounts: Callable[[], str] | None = None,
        shared_folders: Sequence[str] = SHARED_FOLDERS,
        platform: str = sys.platform,
    ) -> None:
        self.uid = os.getuid() if uid is None else uid
        self.host = (host or os.uname().nodename).replace("/", "_")
        self.mounts = mounts or _mounts
        self.shared_folders = tuple(shared_folders)
        """Folders in which each user may make one of their own; the last survives a reboot."""
        self.platform = platform


def filesystem_of(path: str, mountinfo: str) -> str:
    """Type of the file system that holds `path` (proc_pid_mountinfo(5)); empty if unknown."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split(" ")[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), rest.split(" ")[0]
    return kind


def _mounts() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _data_folder(environ: Mapping[str, str], machine: Machine) -> str:
    user = environ.get("HOME") or _account_folder(machine.uid)
    if machine.platform == "darwin":
        return os.path.join(user, "Library", "Application Support", "gpulayer")
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(user, ".local", "share")
    return os.path.join(base, "gpulayer")


def _account_folder(uid: int) -> str:
    import pwd

    return pwd.getpwuid(uid).pw_dir


def _runtime(environ: Mapping[str, str], home: str, machine: Machine) -> str:
    name = f"gpl-{_digest(home)}"
    folders = []
    session = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(session) and _unsafe(session, machine, stat.S_IWGRP | stat.S_IWOTH) == "":
        folders.append(session)
    bases = (*machine.shared_folders, environ.get("TMPDIR", ""))
    folders.extend(_user_folder(base, machine) for base in bases if os.path.isabs(base))
    for folder in folders:
        path = os.path.join(folder, name)
        if len(os.fsencode(os.path.join(path, "p.sock.4194304"))) <= SOCKET_PATH_LIMIT:
            if os.path.lexists(folder):
                _require(folder, machine, forbidden=stat.S_IWGRP | stat.S_IWOTH)
            return path
    raise _error("folder-unsafe", "no folder is short enough for a socket", folders[0], "")


def _recorded_runtime(lock: str, machine: Machine) -> str:
    """The runtime folder of the plane that holds or held `lock`, if its socket is still there."""
    try:
        with open(lock, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(4096).split("\n")
    except OSError:
        return ""
    runtime = lines[1] if len(lines) > 2 else ""
    if not os.path.isabs(runtime) or not os.path.lexists(os.path.join(runtime, "p.sock")):
        return ""
    return "" if _unsafe(runtime, machine, stat.S_IRWXG | stat.S_IRWXO) else runtime


def _user_folder(base: str, machine: Machine) -> str:
    return os.path.join(base, f"gpulayer-{machine.uid}")


def _digest(text: str) -> str:
    return sha256_hex(os.fsencode(text))[:16]


def _make(folder: str, machine: Machine) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except FileExistsError:
        raise _error("folder-unsafe", f"{folder} is not a folder", folder, "") from None
    except OSError as error:
        slug = "disk-full" if error.errno == 28 else "read-only"
        raise _error(slug, f"cannot create {folder}", folder, error.strerror or "") from None


def _require(folder: str, machine: Machine, *, forbidden: int) -> None:
    why = _unsafe(folder, machine, forbidden)
    if why:
        raise _error("folder-unsafe", f"{folder} must be private, and is not", folder, why)


def _unsafe(folder: str, machine: Machine, forbidden: int) -> str:
    """Why `folder` cannot be trusted; empty when it can. lstat: a link is never followed."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        return error.strerror or "unreadable"
    if not stat.S_ISDIR(found.st_mode):
        return "it is a link or a file"
    if found.st_uid != machine.uid:
        return f"it belongs to user {found.st_uid}, and you are {machine.uid}"
    if found.st_mode & forbidden:
        return f"its mode is {stat.S_IMODE(found.st_mode):o}"
    return ""


def _error(slug: str, message: str, where: str, why: str) -> Exception:
    from gpulayer.errors import StorageError

    hint = f"chmod 700 {where}" if "mode" in why else "export GPULAYER_HOME=$HOME/.gpulayer"
    return StorageError(slug, message, where=where, why=why, hint=hint)
