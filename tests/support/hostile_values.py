# ruff: noqa: E501 - tables
"""Reads damaged values in a process of bounded memory: `python -m tests.support.hostile_values
SEED ROUNDS`. Anything but a value or `Unreadable` ends it with a traceback."""

from __future__ import annotations

import importlib
import json
import random
import resource
import struct
import sys
from pathlib import Path
from typing import Any

from gpulayer.runtime import values
from tests.support import value_kinds
from tests.support.value_kinds import Memory

EXTRA_BYTES = 512 << 20
"""What it may have beyond what the libraries took; a value here has a few hundred bytes."""
CLASSES = values.Classes()


def main() -> None:
    draw, rounds = random.Random(int(sys.argv[1])), int(sys.argv[2])
    originals = [_files(one) for one in _blobs()]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + EXTRA_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    read = sum(_is_read(wire, memory) for wire, memory in _crafted())
    assert read == 0, read
    for _ in range(rounds):
        wire, memory = draw.choice(originals)
        spoiled = Memory()
        spoiled.files = {name: _damaged(body, draw) for name, body in memory.files.items()}
        _is_read(wire, spoiled)
        value = value_kinds.value(draw)
        text = values.encode(value, CLASSES, Memory()).text
        try:
            wire = json.loads(_damaged(text.encode(), draw))
        except (ValueError, RecursionError):
            continue
        _is_read(wire, Memory())
    print("survived")


def _is_read(wire: Any, memory: Memory) -> bool:
    try:
        values.decode(wire, CLASSES, memory)
    except values.Unreadable:
        return False
    return True


def _blobs() -> list[Any]:
    """What of the libraries is installed."""
    made: list[Any] = []
    try:
        numpy = importlib.import_module("numpy")
        made += [numpy.arange(200_000), numpy.ones((2, 150_000), "f4", order="F")]
        made += [numpy.zeros(150_000, [("a", "i4"), ("b", "U3")]), numpy.float32(1)]
    except ImportError:
        pass
    try:
        arrow = importlib.import_module("pyarrow")
        words = arrow.array(["x", "yy", None] * 3).dictionary_encode()
        made.append(arrow.table({"a": [1, None, 3] * 3, "b": words, "c": [[1], [], [2]] * 3}))
    except ImportError:
        pass
    try:
        torch = importlib.import_module("torch")
        made += [torch.ones(300_000, requires_grad=True), torch.ones(3, dtype=torch.complex64)]
    except ImportError:
        pass
    return made


def _files(value: Any) -> tuple[Any, Memory]:
    """With its bytes in a file, whatever their size."""
    memory = Memory()
    wire = values.encode(value, CLASSES, memory).wire
    (tag, body), *_ = wire["value"].items()
    if "data" in body:
        import binascii

        memory.files = {"0.bin": binascii.a2b_base64(body["data"])}
        wire = {values.KEY: 1, "value": {tag: {"file": "0.bin"}}}
    return wire, memory


def _damaged(body: bytes, draw: random.Random) -> bytes:
    """Most of what says how to read it stands in the first bytes."""
    changed = bytearray(body)
    for _ in range(draw.choice([1, 1, 2, 8])):
        near = min(len(changed), draw.choice([64, 400, len(changed)])) or 1
        at = draw.randrange(near)
        kind = draw.randrange(4)
        if kind == 0:
            changed[at : at + 1] = bytes([draw.randrange(256)])
        elif kind == 1:
            changed[at : at + 8] = struct.pack("<Q", draw.choice([0, 1 << 31, (1 << 64) - 1]))
        elif kind == 2:
            del changed[at:]
        else:
            changed[at:at] = changed[draw.randrange(near) :][: draw.randrange(40)]
        if not changed:
            break
    return bytes(changed)


def _npy(text: str, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + body


def _tensor(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def _crafted() -> list[tuple[Any, Memory]]:
    """Each asks for something that must be refused, of whatever is installed."""
    npy = [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<U999999999', 'fortran_order': False, 'shape': (9,)}",
        "{'descr': ('<f8', (99999, 99999)), 'fortran_order': False, 'shape': (9,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 30_000 + "}",
        "-" * 60_000 + "1",
        "[" * 60_000,
        "__import__('os').system('true')",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1}",
        "{'descr': 'no such', 'fortran_order': False, 'shape': (1,)}",
    ]
    bodies = {"array": [_npy(text, b"12345678") for text in npy]}
    bodies["array"] += [
        b"",
        b"PK\x03\x04",
        b"\x93NUMPY\x01\x00\xff",
        b"\x93NUMPY\x03\x00" + b"\xff" * 4,
    ]
    bodies["array"].append(b"\x80\x04cos\nsystem\n(S'true'\ntR.")  # a pickle
    entry = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    bodies["tensor"] = [
        b"", struct.pack("<Q", 1 << 63), _tensor(b"[" * 60_000), _tensor({"value": entry}),
        _tensor({"value": {**entry, "data_offsets": [0, 4]}}, b"1234"),
        _tensor({"value": {**entry, "dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
        _tensor({"other": entry}), _tensor({"value": [1]}), _tensor([]),
    ]  # fmt: skip
    bodies["table"] = [b"", b"ARROW1", b"\xff" * 64, struct.pack("<iI", -1, 1 << 31 - 1)]
    deep: Any = {"$tuple": []}
    for _ in range(300):
        deep = {"$tuple": [deep]}
    wires = [
        {"$tuple": 3}, {"$set": [[1]]}, {"$set": [1, 1]}, {"$dict": [[1, 2], [1, 3]]},
        {"$dict": [[[], 1]]}, {"$bytes": "%%"}, {"$int": "zz"}, {"$decimal": "x"}, {"$no": 1},
        {"$datetime": ["never", 0, None]}, {"$timezone": [[9, 0, 0]]}, {"$zone": "../../etc/passwd"},
        {"$timedelta": [1 << 70, 0, 0]}, {"$path": ["WindowsPath", "x"]}, {"$uuid": "x"}, deep,
        {"$enum": ["os:environ", "PATH"]}, {"$enum": ["builtins:int", "x"]}, {"$enum": ["a", "b"]},
        {"$dataclass": ["subprocess:Popen", {}]}, {"$dataclass": ["antigravity:X", {}]},
        {"$dataclass": ["tests.support.value_kinds:Point", {"x": 1, "z": 2}]},
        {"$dataclass": [["x"], {}]}, {"$array": {"file": "../0.npy"}}, {"$array": {"file": "1.npy"}},
        {"$array": {"file": "/etc/passwd"}}, {"$array": {}}, {"$array": []}, {"$complex": [1]},
    ]  # fmt: skip
    found = [({values.KEY: 1, "value": wire}, Memory()) for wire in wires]
    found += [
        ({values.KEY: 2, "value": 1}, Memory()), ({values.KEY: 1}, Memory()),
        ({values.KEY: 1, "text": "[" * 100_000}, Memory()), ({values.KEY: 1, "text": "NaN"}, Memory()),
        ({values.KEY: 1, "text": "9" * 10_000}, Memory()), ({values.KEY: 1, "file": 3}, Memory()),
    ]  # fmt: skip
    for tag, all_bodies in bodies.items():
        for body in all_bodies:
            memory = Memory()
            memory.files["0.bin"] = body
            found.append(({values.KEY: 1, "value": {"$" + tag: {"file": "0.bin"}}}, memory))
            found.append(
                (
                    {values.KEY: 1, "value": {"$" + tag: {"file": "0.bin", "at": 1, "size": 9**9}}},
                    memory,
                )
            )
    return found


if __name__ == "__main__":
    main()
