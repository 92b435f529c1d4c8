"""Log segments: records in one file that only grows, whole whatever happens."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from gpulayer.runtime import segments
from gpulayer.runtime.segments import Reader, Writer

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 65535),
        st.integers(0, 2**32 - 1),
        st.floats(0, 1e10),
        st.binary(max_size=40),
    ),
    max_size=8,
)


def fields(record):
    return record.stream, record.rank, record.index, record.time, record.data


@given(RECORDS, st.integers(1, 50))
def test_records_come_out_as_they_went_in_whatever_the_split(records, size):
    raw = b"".join(segments.encode(*record) for record in records)
    reader = Reader()
    out = [r for i in range(0, len(raw), size) for r in reader.feed(raw[i : i + size])]
    assert [fields(record) for record in out] == records
    assert [fields(record) for record in segments.decode(raw)] == records


@given(RECORDS, st.integers(1, 30))
def test_a_torn_end_is_cut_and_nothing_else(tmp_path_factory, records, torn):
    path = tmp_path_factory.mktemp("torn") / "seg"
    whole = b"".join(segments.encode(*record) for record in records)
    last = segments.encode(1, 0, 0, 0.0, b"x" * 20)
    path.write_bytes(whole + last[:torn])
    fd = os.open(path, os.O_RDWR)
    try:
        assert segments.repair(fd) == len(whole)
    finally:
        os.close(fd)
    assert path.read_bytes() == whole


def test_what_is_no_segment_is_refused():
    with pytest.raises(ValueError, match="no log record"):
        segments.decode(b"\0" * 40)


def writer(path, limit=None, grown=lambda: None):
    return Writer(str(path), index=3, limit=limit, clock=lambda: 5.0, grown=grown)


def test_a_writer_goes_on_where_the_file_ends_and_tells_of_growth(tmp_path):
    grew = []
    first = writer(tmp_path / "seg", grown=lambda: grew.append(1))
    first.write(segments.STDOUT, b"one")
    first.close()
    second = writer(tmp_path / "seg")
    second.write(segments.STDERR, b"two")
    second.note("a note")
    second.finish()
    second.close()
    assert grew == [1]
    assert [fields(r) for r in segments.decode((tmp_path / "seg").read_bytes())] == [
        (segments.STDOUT, 0, 3, 5.0, b"one"),
        (segments.STDERR, 0, 3, 5.0, b"two"),
        (segments.NOTE, 0, 3, 5.0, b"a note\n"),
    ]
    assert second.size == (tmp_path / "seg").stat().st_size


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=10), st.integers(0, 40))
def test_a_limit_keeps_the_head_and_counts_the_rest(tmp_path_factory, chunks, limit):
    path = tmp_path_factory.mktemp("limit") / "seg"
    log = writer(path, limit=limit)
    for chunk in chunks:
        log.write(segments.STDOUT, chunk)
    log.finish()
    log.close()
    assert path.exists() == bool(chunks)
    records = segments.decode(path.read_bytes() if chunks else b"")
    whole = b"".join(chunks)
    assert b"".join(r.data for r in records if r.stream == segments.STDOUT) == whole[:limit]
    notes = b"".join(r.data for r in records if r.stream == segments.NOTE)
    cut = len(whole) - limit
    assert (b"%d bytes" % cut in notes) if cut > 0 else not notes


def test_a_disk_that_is_full_costs_the_log_and_raises_nothing(tmp_path):
    log = writer(tmp_path / "seg")
    file, log.fd = log.fd, os.open("/dev/full", os.O_WRONLY)
    log.write(segments.STDOUT, b"lost")
    os.close(log.fd)
    log.fd = file
    log.write(segments.STDOUT, b"kept")
    log.finish()
    log.close()
    note, kept = segments.decode((tmp_path / "seg").read_bytes())
    assert note.data == b"4 bytes of output were not kept: no space left on device\n"
    assert kept.data == b"kept"
