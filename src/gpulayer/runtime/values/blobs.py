"""Arrays, tensors and tables: each in its own safe format, small ones in the JSON, large ones in
files. No library is imported to write; to read, the one that the value needs.

    $array    numpy.ndarray        npy, without pickle
    $scalar   numpy.generic        npy of no dimensions
    $tensor   torch.Tensor         the layout of safetensors
    $table    pyarrow.Table        an Arrow IPC stream, uncompressed
    $batch    pyarrow.RecordBatch  the same with one batch
"""

from __future__ import annotations

import importlib
import io
import sys

from . import arrow, limits, npy, safetensors
from .limits import NotPortable, Unreadable, from_base64, to_base64
from .writing import kind_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from .reading import Reader
    from .writing import Writer

    Write = Callable[[BinaryIO], object]

KINDS = {
    "array": ("numpy", "npy", npy.read_array),
    "scalar": ("numpy", "npy", npy.read_scalar),
    "tensor": ("torch", "safetensors", safetensors.read),
    "table": ("pyarrow", "arrow", arrow.read_table),
    "batch": ("pyarrow", "arrow", arrow.read_batch),
}


def write(writer: Writer, value: Any, kind: type) -> Any:
    found = _of(value, kind)
    if found is None:
        raise NotPortable(
            "is a {}".format(kind_name(kind)),
            "send a plain array of it: numpy.asarray, torch.Tensor, pyarrow.Table",
        )
    name, size, fill = found
    ending = KINDS[name][1]
    if size <= limits.INLINE_BLOB_BYTES:
        body = io.BytesIO()
        fill(body)
        return writer.tag(name, {"data": to_base64(body.getvalue())})
    if size >= limits.OWN_FILE_BYTES:
        stored = writer.sink.store(ending, fill, value)
        if stored:
            return writer.tag(name, {"file": stored})
    return writer.tag(name, writer.sink.pack(fill))


def _of(value: Any, kind: type) -> tuple[str, int, Write] | None:
    """(tag, about how many bytes, what writes them); None where it is of no kind that travels."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    pyarrow = sys.modules.get("pyarrow")
    if numpy is not None and kind is numpy.ndarray:
        npy.check(numpy, value.dtype)
        return "array", value.nbytes, lambda file: npy.write(numpy, value, file)
    if numpy is not None and issubclass(kind, numpy.generic):
        array = npy.of_scalar(numpy, value)
        return "scalar", array.nbytes, lambda file: npy.write(numpy, array, file)
    if torch is not None and kind is torch.Tensor:
        safetensors.check(torch, value)
        size = value.numel() * value.element_size()
        return "tensor", size, lambda file: safetensors.write(torch, value, file)
    if pyarrow is not None and kind in (pyarrow.Table, pyarrow.RecordBatch):
        name = "table" if kind is pyarrow.Table else "batch"
        return name, value.nbytes, lambda file: arrow.write(pyarrow, value, file)
    return None


def read(reader: Reader, name: str, wire: Any) -> Any:
    library, _, make = KINDS[name]
    try:
        module = importlib.import_module(library)
    except ImportError as error:
        raise Unreadable(
            "it holds a {} value, and {} cannot be imported by {}: {}".format(
                library, library, sys.executable, error
            ),
            library,
        ) from None
    if "data" in wire:
        body = from_base64(wire["data"])
        return make(module, io.BytesIO(body), len(body))
    with reader.open(wire["file"]) as file:
        end = file.seek(0, io.SEEK_END)
        at, size = wire.get("at", 0), wire.get("size", end)
        if type(at) is not int or type(size) is not int or at < 0 or size < 0 or at + size > end:
            raise Unreadable("it is damaged: its file {} is too short".format(wire["file"]))
        file.seek(at)
        return make(module, file, size)
