"""torch tensors in the layout of safetensors: eight bytes of length, a JSON header, the bytes.

Written and read here, so that neither side needs the package; its readers read these files.
"""

from __future__ import annotations

import ctypes
import json
import struct

from .bounded import count_of, exactly, filled
from .limits import NotPortable, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

NAME = "value"
HEADER_BYTES = 64 << 10
_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""Its names, and torch's."""
_COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""Travel as their parts, with a last dimension of two, and are named in the metadata."""


def check(torch: Any, tensor: Any) -> None:
    """Raises NotPortable for what its bytes alone do not say."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise NotPortable("is a tensor of another layout than strided", "send .to_dense() of it")
    if tensor.device.type != "cpu":
        raise NotPortable("is a tensor on {}".format(tensor.device), "send .cpu() of it")
    if tensor.grad_fn is not None or tensor.grad is not None:
        raise NotPortable("is a tensor with a graph or a gradient", "send .detach() of it")
    if vars(tensor) or any(getattr(tensor, "names", ())):
        raise NotPortable("is a tensor with names or attributes", "send .detach().clone() of it")
    if dtype not in _COMPLEX and dtype not in _DTYPES.values():
        raise NotPortable("is a tensor of {}".format(tensor.dtype), "convert it with .to")


def write(torch: Any, tensor: Any, file: BinaryIO) -> None:
    dtype = str(tensor.dtype).rpartition(".")[2]
    metadata = {}
    if tensor.requires_grad:
        metadata["requires_grad"] = "true"
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if dtype in _COMPLEX:
        metadata["complex"] = dtype
        dtype = _COMPLEX[dtype]
        flat = torch.view_as_real(flat)
    size = flat.numel() * flat.element_size()
    name = next(ours for ours, theirs in _DTYPES.items() if theirs == dtype)
    entry = {"dtype": name, "shape": list(flat.shape), "data_offsets": [0, size]}
    header = json.dumps(
        {**({"__metadata__": metadata} if metadata else {}), NAME: entry}, separators=(",", ":")
    )
    header += " " * (-len(header) % 8)
    file.write(struct.pack("<Q", len(header)) + header.encode("ascii"))
    if size:
        file.write(memoryview((ctypes.c_char * size).from_address(flat.data_ptr())))


def read(torch: Any, file: BinaryIO, size: int) -> Any:
    (length,) = struct.unpack("<Q", exactly(file, 8))
    if length > min(HEADER_BYTES, size - 8):
        raise Unreadable("it is damaged: its header does not fit its bytes")
    header = json.loads(exactly(file, length))
    entry, metadata = header[NAME], header.get("__metadata__", {})
    name, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if name not in _DTYPES or type(metadata) is not dict or set(header) - {NAME, "__metadata__"}:
        raise Unreadable("it is damaged: its header names no tensor")
    dtype = getattr(torch, _DTYPES[name], None)
    if dtype is None:
        raise Unreadable("its dtype {} needs a newer torch".format(_DTYPES[name]), "torch")
    body = size - 8 - length
    width = torch.empty((), dtype=dtype).element_size()
    if (begin, end) != (0, body) or count_of(shape) * width != body:
        raise Unreadable("it is damaged: its shape does not fit its bytes")
    if body:
        made = torch.frombuffer(filled(file, body), dtype=torch.uint8).view(dtype).reshape(shape)
    else:
        made = torch.empty(shape, dtype=dtype)
    complex_name = metadata.get("complex")
    if complex_name is not None:
        if _COMPLEX.get(complex_name) != _DTYPES[name]:
            raise Unreadable("it is damaged: its parts are of another type")
        made = torch.view_as_complex(made)
    return made.requires_grad_() if metadata.get("requires_grad") == "true" else made
