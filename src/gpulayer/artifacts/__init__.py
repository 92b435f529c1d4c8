"""Files that jobs bring and leave, kept by the digest of their bytes.

    port        ArtifactStore: what both stores are to the rest
    store       LocalArtifacts: one folder on this machine
    bucket      BucketArtifacts: an object store
    s3            the way to it; `objects` its verbs; `marks` what it is known to hold
    on_disk     what both do on a disk; `digesting` makes digests beside whoever brings the bytes
    web         bytes from and to an https address
    collect     what a job left in its output folder, into a store
    cut         a folder as it is at one moment, while somebody may be writing in it
    bundle      build_source_bundle: a folder of source as one deterministic archive
    listing       which of its files are source; `ignoring` has the patterns
    witness       what a listing was told; `seen` remembers it and the files, in a `seen_file`
    zip_layout    the bytes of our archives
    extract     extract_bundle: an archive from anybody into a fresh folder, or nothing
    strict_zip    the reader that refuses what is not exactly ours

A digest is the only name, so equal files are kept once, no path of a user reaches the disk, and
what is served is always what was stored. Which artifacts are still needed is known by the store
of jobs, not here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer.artifacts.bundle import (
        Bundle as Bundle,
        build_source_bundle as build_source_bundle,
    )
    from gpulayer.artifacts.extract import extract_bundle as extract_bundle
    from gpulayer.artifacts.store import LocalArtifacts as LocalArtifacts

_HOMES = {
    "Bundle": "bundle",
    "LocalArtifacts": "store",
    "build_source_bundle": "bundle",
    "extract_bundle": "extract",
}

__all__ = ["Bundle", "LocalArtifacts", "build_source_bundle", "extract_bundle"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
