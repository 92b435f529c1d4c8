"""Whose a place in a bucket is: two planes that collect in one place would each remove what the
other needs.

    PREFIX/owner     the mark of the plane's database, which knows what is needed

It is written once and read at each start. Two planes that begin at the same instant in an empty
place are told apart where the store knows conditions; elsewhere the later one's mark stays, and the
other hears of it at its next start.
"""

from __future__ import annotations

import secrets

import obstore

from gpulayer.artifacts.s3 import Bucket
from gpulayer.errors import NotFoundError, StorageError
from gpulayer.storage import Store, Tx

_KEY = "bucket_owner"
_OWNER = "owner"


def settle(store: Store, bucket: Bucket, place: str) -> None:
    """Take the place, or go on with it. Raises `bucket-taken`, and what the bucket refuses: this
    is the first time that it is asked. `place` names the plane for people."""

    def mark(tx: Tx) -> str:
        if tx.meta(_KEY) is None:
            tx.set_meta(_KEY, secrets.token_hex(16))
        return str(tx.meta(_KEY))

    mine = store.write(mark, durable=True).result()
    found = _read(bucket)
    if found is None:
        _write(bucket, f"{mine} {place}")
        found = _read(bucket)
    theirs, _, at = (found or "").partition(" ")
    if theirs != mine:
        raise StorageError(
            "bucket-taken",
            "This place in the bucket belongs to another plane.",
            where=bucket.where,
            why=f"{at or 'another one'} keeps its artifacts there",
            hint=f"gpulayer serve --artifacts {bucket.address}/another",
        )


def _read(bucket: Bucket) -> str | None:
    try:
        with bucket.asking(lambda: NotFoundError("artifact-not-found", "nobody has it")):
            data = bytes(obstore.get(bucket.store, _OWNER).bytes())
    except NotFoundError:
        return None
    return data[:500].decode(errors="replace")


def _write(bucket: Bucket, text: str) -> None:
    from obstore.exceptions import AlreadyExistsError

    with bucket.asking():
        try:
            obstore.put(bucket.store, _OWNER, text.encode(), mode="create", use_multipart=False)
        except AlreadyExistsError:
            pass  # somebody was here in this moment
