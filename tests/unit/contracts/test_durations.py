"""Quantities as people type them."""

from __future__ import annotations

import pytest

from gpulayer.contracts import GpuRequest, parse_duration, parse_gpus, parse_memory_gb
from gpulayer.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("0.5", 0.5),
        ("15m", 900),
        ("2h", 7200),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("1d", 86_400),
        ("2W", 1_209_600),
        (" 2h ", 7200),
        ("30:00", 1800),
        ("12:00:00", 43_200),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:00:00", 129_600),
        ("366d", 366 * 86_400),
    ],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "2x", "h", "1h 30m", "1:60", "1-", "nan", "inf",
                                  "1e3", "367d", "1:2:3:4", "1h30", "٣", "9" * 400])  # fmt: skip
def test_what_is_no_duration_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text, "--older-than")
    assert caught.value.code == "usage"
    assert str(caught.value).startswith("--older-than ")
    assert len(str(caught.value)) < 120
    assert parse_duration(caught.value.help[0].removeprefix("--older-than "))


@pytest.mark.parametrize(
    ("text", "gigabytes"),
    [
        ("64", 64),
        ("64G", 64),
        ("64GB", 64),
        ("64gb", 64),
        ("64 GB", 64),
        ("512MB", 0.512),
        ("1.5T", 1500),
        ("1GiB", 2**30 / 1e9),
        ("1024Mi", 2**30 / 1e9),
    ],
)
def test_memory_is_gigabytes(text: str, gigabytes: float) -> None:
    assert parse_memory_gb(text) == pytest.approx(gigabytes)


@pytest.mark.parametrize("text", ["", "0", "-1", "64X", "GB", "1e3", "64B", "2000000"])
def test_what_is_no_memory_says_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_memory_gb(text)
    assert parse_memory_gb(caught.value.help[0].removeprefix("--memory "))


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("0", GpuRequest(0)),
        ("2", GpuRequest(2)),
        ("a100", GpuRequest(1, ("a100",))),
        ("A100:2", GpuRequest(2, ("a100",))),
        ("a100,h100:2", GpuRequest(2, ("a100", "h100"))),
        ("RTX-4090:1", GpuRequest(1, ("rtx4090",))),
        ("24GB:2", GpuRequest(2, memory_gb=24)),
        ("24GB", GpuRequest(1, memory_gb=24)),
        ("m2", GpuRequest(1, ("m2",))),
    ],
)
def test_gpus_are_a_count_models_or_a_size(text: str, request_: GpuRequest) -> None:
    assert parse_gpus(text) == request_


@pytest.mark.parametrize(
    "text",
    [
        "",
        *"-1 1.5 a100: :2 a100:x 24:2 a100,:2 a100:0 2:a100 4090 a100;h100:1 0GB:1 \u00b2".split(),
    ],
)
def test_what_are_no_gpus_says_how_to_write_them(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_gpus(text)
    assert str(caught.value).startswith("--gpus ")
    assert caught.value.why
