"""A child that begins inside a cgroup: clone3(2) with CLONE_INTO_CGROUP, from Linux 5.7 on.

To move a process into one waits until every processor has passed a quiet point, 5 to 15 ms, unless
one was moved a moment ago (Linux, `cgroup_threadgroup_rwsem`). To begin in one waits for nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _signal import SIGCHLD  # type: ignore[import-not-found]

_CLONE3 = 435  # on every architecture
_INTO_CGROUP = 1 << 33

# The one that keeps the interpreter's lock: the child could not take it back.
_syscall = ctypes.PyDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_char_p, ctypes.c_size_t)


def fork(folder: int) -> int:
    """As `os.fork`, in the cgroup whose folder that descriptor is. For a process with one thread,
    whose child must do no more than exec: the C library doesn't know of it. OSError where
    it can't be."""
    # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
    # set_tid_size, cgroup
    fields = (_INTO_CGROUP, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, folder)
    given = b"".join(int(field).to_bytes(8, sys.byteorder) for field in fields)
    pid: int = _syscall(_CLONE3, given, len(given))
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid
