"""numpy arrays as npy files, the format of `numpy.save`, without pickle.

The header is read here and compared with the bytes that are there, before anything is allocated.
"""

from __future__ import annotations

import ast
import struct

from .bounded import count_of, exactly, filled
from .limits import NotPortable, Unreadable, not_finite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

MAGIC = b"\x93NUMPY"
HEADER_BYTES = 64 << 10
_KINDS = "biufcmMSUV"
"""Of dtypes that are their bytes: no objects, no strings of variable length."""


def check(numpy: Any, dtype: Any) -> None:
    """Raises NotPortable for a dtype that npy cannot hold without pickle."""
    if dtype.hasobject:
        raise NotPortable("is a numpy array of objects", "send a list, or give it a number's dtype")
    is_plain = dtype.kind in _KINDS and dtype.isbuiltin != 2 and not dtype.metadata
    if is_plain:
        form = numpy.lib.format
        is_plain = form.descr_to_dtype(form.dtype_to_descr(dtype)) == dtype
    if not is_plain:
        raise NotPortable(
            "is a numpy array of dtype {}, which npy cannot hold".format(dtype),
            "convert it with .astype",
        )


def of_scalar(numpy: Any, value: Any) -> Any:
    """An array of no dimensions that gives the scalar back."""
    kind = type(value)
    if not (value == value):  # NaN and NaT alone are not
        raise not_finite(value)
    if kind.__module__ != "numpy":
        raise NotPortable("is a {}.{}".format(kind.__module__, kind.__qualname__), "use .item()")
    if issubclass(kind, numpy.inexact) and not numpy.isfinite(value):
        raise not_finite(value)
    array = numpy.asarray(value)
    check(numpy, array.dtype)
    again = array[()]
    if type(again) is not kind or again.dtype != value.dtype or not again == value:
        raise NotPortable("is a {} that npy does not keep".format(kind.__name__), "use .item()")
    return array


def write(numpy: Any, array: Any, file: BinaryIO) -> None:
    numpy.lib.format.write_array(file, array, allow_pickle=False)


def read_array(numpy: Any, file: BinaryIO, size: int) -> Any:
    head = exactly(file, min(size, 12))
    major = head[6] if len(head) >= 10 and head[:6] == MAGIC else 0
    if major not in (1, 2, 3):
        raise Unreadable("it is damaged: it is no npy file")
    width = 2 if major == 1 else 4
    start = 8 + width
    if len(head) < start:
        raise Unreadable("it is damaged: it ends too early")
    (length,) = struct.unpack("<H" if major == 1 else "<I", head[8:start])
    if length > HEADER_BYTES:
        raise Unreadable("its npy header has {} bytes".format(length))
    if length < len(head) - start:
        raise Unreadable("it is damaged: its header is too short")
    text = head[start:] + exactly(file, length - (len(head) - start))
    dtype, shape, is_fortran = _header(numpy, text, major)
    body = size - start - length
    if count_of(shape) * dtype.itemsize != body:
        raise Unreadable("it is damaged: its shape does not fit its bytes")
    order = "F" if is_fortran else "C"
    if not body:
        return numpy.empty(shape, dtype, order=order)
    return numpy.frombuffer(filled(file, body), dtype).reshape(shape, order=order)


def read_scalar(numpy: Any, file: BinaryIO, size: int) -> Any:
    array = read_array(numpy, file, size)
    if array.shape != ():
        raise Unreadable("it is damaged: a scalar has a shape")
    return array[()]


def _header(numpy: Any, text: bytes, major: int) -> tuple[Any, tuple[int, ...], bool]:
    try:
        found = ast.literal_eval(text.decode("utf-8" if major == 3 else "latin-1").strip())
    except (SyntaxError, MemoryError):
        found = None
    if type(found) is not dict or set(found) != {"descr", "fortran_order", "shape"}:
        raise Unreadable("it is damaged: it has no npy header")
    shape, is_fortran = found["shape"], found["fortran_order"]
    if type(shape) is not tuple or type(is_fortran) is not bool:
        raise Unreadable("it is damaged: it has no npy header")
    dtype = numpy.lib.format.descr_to_dtype(found["descr"])
    if dtype.hasobject or dtype.subdtype is not None or dtype.kind not in _KINDS:
        raise Unreadable("its dtype {} is not read".format(dtype))
    return dtype, shape, is_fortran
