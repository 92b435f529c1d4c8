"""Arrays, tensors and tables in their own formats, what bounds a value, and damaged ones."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpulayer.runtime import values
from tests.support.value_kinds import Memory, Point

CLASSES = values.Classes()
TORCH = os.environ.get("GPULAYER_TEST_TORCH")


@pytest.fixture
def numpy() -> ModuleType:
    return pytest.importorskip("numpy", reason="numpy is not installed: its arrays are not tried")


@pytest.fixture
def arrow() -> ModuleType:
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed: tables are not tried")


def through(value: Any, memory: Memory | None = None) -> Any:
    memory = memory or Memory()
    text = values.encode(value, CLASSES, memory).text
    return values.decode(json.loads(text), CLASSES, memory)


def refusal(value: Any) -> str:
    with pytest.raises(values.NotPortable) as caught:
        values.encode(value, CLASSES, Memory())
    return f"{caught.value.at('args[0]')}; {caught.value.mend}"


# --- numpy ----------------------------------------------------------------------------------

ARRAYS = [
    "np.arange(10)",
    "np.array(2.5)",
    "np.zeros((0, 3), 'f4')",
    "np.array([np.nan, -np.inf, -0.0])",
    "np.arange(12.0).reshape(3, 4).T",
    "np.arange(1000)[::7]",
    "np.arange(5, dtype='>i4')",
    "np.array([True, False])",
    "np.array([1 + 2j], dtype='c8')",
    "np.array([1.5], dtype='f2')",
    "np.array(['a', 'bcd', ''])",
    "np.array([b'x', b''])",
    "np.array(['2020-01-02', 'NaT'], dtype='M8[D]')",
    "np.array([3], dtype='m8[us]')",
    "np.array([(1, 2.0, 'x')], dtype=[('a', 'u1'), ('b', 'f8'), ('c', 'U3')])",
    "np.zeros(2, dtype=np.dtype([('a', 'u1'), ('b', 'f8')], align=True))",
    "np.zeros(2, dtype=[('a', 'f4', (2, 2))])",
    "np.ones((400, 1000))",
    "np.ones(3000)",
]


@pytest.mark.parametrize("source", ARRAYS)
def test_an_array_comes_back_bit_by_bit(numpy: ModuleType, source: str) -> None:
    array = eval(source, {"np": numpy})
    back = through([array, array])[1]
    assert type(back) is numpy.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
    back[...] = back  # it can be written


@pytest.mark.parametrize(
    "source", ["float32(0.1)", "float64(-0.0)", "int8(-3)", "bool_(True)", "complex64(1j)",
               "str_('a')", "bytes_(b'a')", "datetime64('2020-01-01')", "timedelta64(3, 's')",
               "longdouble(0.1)"],
)  # fmt: skip
def test_a_scalar_of_numpy_stays_one(numpy: ModuleType, source: str) -> None:
    scalar = eval(f"np.{source}", {"np": numpy})
    back = through({"x": scalar})["x"]
    assert type(back) is type(scalar)
    assert back == scalar
    assert str(back) == str(scalar)  # and the sign of zero


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("np.array([object()])", "is a numpy array of objects; send a list"),
        ("np.zeros(1, dtype=[('a', 'O')])", "is a numpy array of objects"),
        ("np.ma.array([1])", "is a numpy.ma.MaskedArray"),
        ("np.matrix([1])", "is a numpy.matrix"),
        ("np.zeros(1, dtype=np.dtype('f4', metadata={'a': 1}))", "which npy cannot hold"),
        ("np.float64('nan')", "is nan, which JSON cannot hold"),
        ("np.float32('inf')", "is inf, which JSON cannot hold"),
        ("np.datetime64('NaT')", "is NaT"),
        ("np.str_('a\\0')", "npy does not keep"),
        ("np.dtype('f4')", "is a numpy.dtype"),
        ("np.random.default_rng(1)", "is a numpy.random"),
    ],
)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_what_npy_cannot_say_is_refused_with_its_place(
    numpy: ModuleType, source: str, said: str
) -> None:
    found = refusal([{"x": eval(source, {"np": numpy})}])
    assert found.startswith("args[0][0]['x'] ")
    assert said in found


def test_small_arrays_stand_in_the_json_middling_ones_share_a_file_large_ones_have_one(
    numpy: ModuleType,
) -> None:
    memory = Memory()
    made = [numpy.arange(4), numpy.arange(1000.0), numpy.arange(2000.0), numpy.zeros(1 << 18)]
    for one, back in zip(made, through(made, memory), strict=True):
        assert numpy.array_equal(one, back)
    assert sorted(memory.files) == ["1.npy", "pack.bin"]
    assert numpy.load(io_of(memory.files["1.npy"])).shape == (1 << 18,)


def test_one_array_in_two_places_is_stored_once(numpy: ModuleType, tmp_path: Path) -> None:
    sink = values.FolderSink(str(tmp_path / "v"), "x-")
    array = numpy.zeros(1 << 18)
    wire = values.encode([array, (array,)], CLASSES, sink).wire
    assert sink.names == ["x-0.npy"]
    first, (second,) = values.decode(wire, CLASSES, values.FolderSource(sink.folder))
    assert numpy.array_equal(first, second)
    sink.discard()
    assert not (tmp_path / "v").exists()


def test_many_large_arrays_share_a_file_past_the_most_that_have_one(
    numpy: ModuleType, tmp_path: Path
) -> None:
    sink = values.FolderSink(str(tmp_path))
    sink.names += [f"{number}.npy" for number in range(250)]
    wire = values.encode(numpy.arange(1 << 18), CLASSES, sink).wire
    assert os.listdir(tmp_path) == ["pack.bin"]
    back = values.decode(wire, CLASSES, values.FolderSource(str(tmp_path)))
    assert back[-1] == (1 << 18) - 1


def io_of(body: bytes) -> Any:
    import io

    return io.BytesIO(body)


# --- arrow ----------------------------------------------------------------------------------

TABLES = [
    "pa.table({'a': [1, None, 3], 'b': ['x', None, '']})",
    "pa.table({'a': pa.array(['u', 'v', 'u']).dictionary_encode()})",
    "pa.table({'a': [[1], [], None], 'b': [{'c': 1}, {'c': 2}, None]})",
    "pa.table({'a': pa.array([], pa.int8())})",
    "pa.table({'a': [1, 2]}).replace_schema_metadata({'k': 'v'})",
    "pa.table({'a': list(range(300_000))}).slice(7, 200_000)",
    "pa.table({'a': pa.chunked_array([[1, 2], [3]])})",
    "pa.table({'a': [1, 2]}).to_batches()[0]",
    "pa.RecordBatch.from_arrays([pa.array([], pa.string())], ['a'])",
]


@pytest.mark.parametrize("source", TABLES)
def test_a_table_comes_back_with_its_schema(arrow: ModuleType, source: str) -> None:
    table = eval(source, {"pa": arrow})
    back = through((table,))[0]
    assert type(back) is type(table)
    assert back.equals(table, check_metadata=True)


def test_what_is_compressed_is_not_read(arrow: ModuleType) -> None:
    ipc = importlib.import_module("pyarrow.ipc")
    for codec in ("zstd", "lz4"):
        sink = arrow.BufferOutputStream()
        table = arrow.table({"a": ["x" * 1000] * 1000})
        with ipc.new_stream(
            sink, table.schema, options=ipc.IpcWriteOptions(compression=codec)
        ) as s:
            s.write(table)
        memory = Memory()
        memory.files["0.arrow"] = sink.getvalue().to_pybytes()
        wire = {values.KEY: 1, "value": {"$table": {"file": "0.arrow"}}}
        with pytest.raises(values.Unreadable, match="compressed"):
            values.decode(wire, CLASSES, memory)


def test_other_values_of_arrow_are_refused(arrow: ModuleType) -> None:
    assert "is a pyarrow.lib.Int64Array; send a plain array" in refusal([arrow.array([1])])


# --- torch ----------------------------------------------------------------------------------

TENSORS = """
import importlib.util, json, sys
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    "v", folder + "/__init__.py", submodule_search_locations=[folder])
v = sys.modules["v"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(v)
import torch
from v.folder import FolderSink, FolderSource

def through(value):
    sink = FolderSink(sys.argv[2])
    text = v.encode(value, v.Classes(), sink).text
    back = v.decode(json.loads(text), v.Classes(), FolderSource(sink.folder))
    sink.discard()
    return back

t = torch
GOOD = [
    t.arange(6).reshape(2, 3).T, t.tensor(2.5), t.zeros(0, 3), t.tensor(True), t.arange(99)[::7],
    t.randn(3, requires_grad=True), t.randn(4).bfloat16(), t.randn(4).half(), t.randn(2).double(),
    t.randn(3, dtype=t.complex64), t.randn(2, 2, dtype=t.complex128).T.conj(),
    t.tensor([1], dtype=t.uint8), t.tensor([-1], dtype=t.int8), t.tensor([9], dtype=t.int16),
    t.tensor([9], dtype=t.uint16), t.tensor([float("nan"), -0.0]), t.randn(600, 600),
    t.randn(4).to(t.float8_e4m3fn), t.randn(4).to(t.float8_e5m2),
]
for one in GOOD:
    back = through({"w": [one]})["w"][0]
    assert type(back) is t.Tensor
    same = (one.dtype, one.shape, one.requires_grad) == (back.dtype, back.shape, back.requires_grad)
    bits = lambda x: x.detach().resolve_conj().contiguous().reshape(-1).view(t.uint8).tolist()
    assert same and (one.numel() == 0 or bits(one) == bits(back)), one
state = dict(t.nn.Linear(3, 2).state_dict())
assert all(t.equal(one, state[name]) for name, one in through(state).items())
BAD = [
    (t.nn.Parameter(t.zeros(1)), "is a torch.nn.parameter.Parameter"),
    (t.zeros(1, requires_grad=True) * 2, "with a graph or a gradient; send .detach()"),
    (t.zeros(2).to_sparse(), "of another layout"),
    (t.zeros(1, device="meta"), "on meta; send .cpu()"),
    (t.float32, "is a torch.dtype"), (t.nn.Linear(1, 1), "is a torch.nn"),
    (t.nn.Linear(1, 1).state_dict(), "as a state_dict is; send dict(...)"),
]
for one, said in BAD:
    try:
        through([one])
    except v.NotPortable as error:
        found = error.at("args[0]") + "; " + error.mend
        assert found.startswith("args[0][0] ") and said in found, found
    else:
        raise AssertionError(said)
print("all of them")
"""


@pytest.mark.skipif(TORCH is None, reason="GPULAYER_TEST_TORCH names no Python with torch")
def test_a_tensor_comes_back_bit_by_bit(tmp_path: Path) -> None:
    folder = str(Path(values.__file__).parent)
    words = [str(TORCH), "-W", "ignore", "-c", TENSORS, folder, str(tmp_path / "files")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "all of them\n", done.stderr


# --- bounds ---------------------------------------------------------------------------------


def test_shared_parts_come_back_as_parts_of_their_own() -> None:
    shared = [1]
    back = through([shared, (shared, shared)])
    assert back == [shared, (shared, shared)]
    assert back[0] is not back[1][0]


def test_what_shares_its_parts_without_bound_is_refused_before_memory_is_full() -> None:
    value: Any = [0] * 1_000_000
    for _ in range(60):
        value = [value, value]
    assert "makes more than 4000000 parts" in refusal(value)


@pytest.mark.parametrize(
    ("make", "most"),
    [(lambda x: [x], 200), (lambda x: {1: x}, 200), (lambda x: (x,), 100), (Point, 100)],
)
def test_the_deepest_value_and_one_more(make: Any, most: int) -> None:
    value: Any = 1
    for _ in range(most):
        value = make(value)
    assert through(value) == value
    assert "is nested too deeply" in refusal(make(value))


def test_a_large_value_goes_to_a_file_and_a_deep_one_travels_as_text() -> None:
    memory = Memory()
    written = values.encode(["x" * 100], CLASSES, memory, inline=100)
    assert written.wire == {values.KEY: 1, "file": "0.json"}
    assert values.decode(written.wire, CLASSES, memory) == ["x" * 100]
    assert set(values.encode(((((1,),),),), CLASSES, memory, depth=10).wire) == {values.KEY, "text"}


def test_nothing_large_travels_where_there_is_no_place_for_it() -> None:
    with pytest.raises(values.NotPortable, match="too large to stand in the job itself"):
        values.encode("x" * 101, CLASSES, values.Sink(), inline=100)


def test_no_library_is_loaded_to_refuse_or_to_write() -> None:
    code = """
import sys
from gpulayer.runtime import values
values.encode([(1,), {2: b"x"}], values.Classes(), values.Sink())
print(sorted({"numpy", "torch", "pyarrow", "dataclasses", "decimal", "pathlib"} & set(sys.modules)))
"""
    words = [sys.executable, "-S", "-c", code]
    path = {"PYTHONPATH": str(Path(values.__file__).parents[3])}
    done = subprocess.run(words, env=path, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


# --- damaged --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_values_are_refused_in_bounded_memory(seed: int) -> None:
    words = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.support.hostile_values",
        str(seed),
        "1500",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "survived\n", done.stderr[-3000:]


def test_what_a_job_returns_loads_no_code_here() -> None:
    wire = {values.KEY: 1, "value": {"$dataclass": ["this:Zen", {}]}}
    with pytest.raises(values.Unreadable, match="is not loaded; import this before") as caught:
        values.decode(wire, CLASSES, values.Source())
    assert caught.value.lacks == "this"
    assert "this" not in sys.modules
