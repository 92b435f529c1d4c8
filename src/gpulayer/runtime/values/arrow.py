"""Arrow tables as IPC streams, uncompressed.

A compressed buffer says itself how large it is, so a small file could ask for any memory. None is
written, and each message is looked at before Arrow reads it.
"""

from __future__ import annotations

import importlib
import struct

from .bounded import filled
from .limits import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

OLDEST = (14, 0, 1)
"""Before, a schema could have code loaded (CVE-2023-47248)."""
_DICTIONARY, _BATCH = 2, 3
"""Kinds of messages that bring buffers."""


def write(pyarrow: Any, value: Any, file: BinaryIO) -> None:
    importlib.import_module("pyarrow.ipc")
    options = pyarrow.ipc.IpcWriteOptions(compression=None)
    with pyarrow.ipc.new_stream(file, value.schema, options=options) as stream:
        stream.write(value)


def read_table(pyarrow: Any, file: BinaryIO, size: int) -> Any:
    return _read(pyarrow, file, size)


def read_batch(pyarrow: Any, file: BinaryIO, size: int) -> Any:
    table = _read(pyarrow, file, size)
    batches = table.to_batches()
    if len(batches) > 1:
        raise Unreadable("it is damaged: it has several batches")
    if batches:
        return batches[0]
    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([], field.type) for field in table.schema], schema=table.schema
    )


def _read(pyarrow: Any, file: BinaryIO, size: int) -> Any:
    importlib.import_module("pyarrow.ipc")
    version = tuple(int(part) for part in pyarrow.__version__.split(".")[:3] if part.isdigit())
    if version < OLDEST:
        raise Unreadable("pyarrow {} is too old to read it safely".format(pyarrow.__version__),
                         "pyarrow")  # fmt: skip
    body = pyarrow.py_buffer(filled(file, size))
    try:
        for message in pyarrow.ipc.MessageReader.open_stream(body):
            if message.type in ("record batch", "dictionary"):
                _refuse_compressed(memoryview(message.metadata))
        with pyarrow.ipc.open_stream(body) as stream:
            table = stream.read_all()
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable("it is damaged: {}".format(str(error)[:200])) from None
    return table


def _refuse_compressed(metadata: memoryview) -> None:
    """A message's flatbuffer: the table Message has its kind and a RecordBatch, perhaps inside a
    DictionaryBatch; the fourth field of that says how it is compressed."""
    message = _U32.unpack_from(metadata, 0)[0]
    kind_at = _field(metadata, message, 1)
    header = _follow(metadata, _field(metadata, message, 2))
    kind = metadata[kind_at] if kind_at else 0
    if kind == _DICTIONARY:
        header = _follow(metadata, _field(metadata, header, 1))
    elif kind != _BATCH:
        return
    if _field(metadata, header, 3):
        raise Unreadable("it is compressed, which is not read")


_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")


def _field(data: memoryview, table: int, index: int) -> int:
    """Where that field of a table is; 0 where it has its default."""
    try:
        vtable = table - _I32.unpack_from(data, table)[0]
        if vtable < 0 or 4 + 2 * index >= _U16.unpack_from(data, vtable)[0]:
            return 0
        offset = _U16.unpack_from(data, vtable + 4 + 2 * index)[0]
    except struct.error:
        raise Unreadable("it is damaged: a message is cut short") from None
    return table + int(offset) if offset else 0


def _follow(data: memoryview, at: int) -> int:
    try:
        return at + int(_U32.unpack_from(data, at)[0]) if at else 0
    except struct.error:
        raise Unreadable("it is damaged: a message is cut short") from None
