"""SHA-256 without `hashlib`, which maps OpenSSL: a third of the supervisor's memory."""

from __future__ import annotations

import sys
from importlib import import_module


def sha256_hex(data: bytes) -> str:
    digest: str = _sha256(data).hexdigest()
    return digest


_sha256 = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
