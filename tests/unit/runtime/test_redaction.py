"""Redaction finds every form of a secret, wherever the stream is cut."""

from __future__ import annotations

import base64
import html
import json
import shlex
import urllib.parse

import pytest
from hypothesis import given, settings, strategies as st

from gpulayer.runtime.redaction import MOST_NEEDLES, Redactor, needles

SECRET = "tOp/s3cr+t&'x\"=<y> z\\w"
MARK = b"[redacted:KEY]"
PARTS = (1, 2, 3, 5, 7, 16, 64, 1024)
FORMS = {
    "plain": SECRET.encode(),
    "base64": base64.b64encode(SECRET.encode()),
    "base64 one byte in": base64.b64encode(b"u" + SECRET.encode() + b"!"),
    "base64 two bytes in": base64.b64encode(b"u:" + SECRET.encode()),
    "base64url": base64.urlsafe_b64encode(SECRET.encode()),
    "hex": SECRET.encode().hex().encode(),
    "HEX": SECRET.encode().hex().upper().encode(),
    "quoted": urllib.parse.quote(SECRET, safe="").encode(),
    "quoted path": urllib.parse.quote(SECRET).encode(),
    "form": urllib.parse.quote_plus(SECRET).encode(),
    "json": json.dumps(SECRET)[1:-1].encode(),
    "shell": shlex.quote(SECRET)[1:-1].encode(),
    "xml": html.escape(SECRET).encode(),
    "wrapped": SECRET[:5].encode() + b"\r\n" + SECRET[5:11].encode() + b"\n" + SECRET[11:].encode(),
}


def redacted(data, size, secrets=(("KEY", SECRET),)):
    redactor = Redactor(secrets)
    out = [redactor.feed(data[i : i + size]) for i in range(0, len(data), size)]
    return b"".join(out) + redactor.flush()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("size", PARTS)
def test_each_form_is_found_at_every_offset(form, size):
    for offset in range(size if size < 64 else 8):
        head = b"." * offset
        out = redacted(head + form + b"\nafter", size)
        assert MARK in out
        assert out.startswith(head)
        assert out.endswith(b"\nafter")
        assert SECRET.encode() not in out
        assert form not in out


@pytest.mark.parametrize("size", PARTS)
def test_a_secret_split_at_every_byte_of_the_stream_leaves_nothing(size):
    secret = "".join(chr(33 + (i * 7) % 90) for i in range(64))
    for cut in range(64):
        redactor = Redactor([("KEY", secret)])
        data = b"a" + secret.encode() + b"b"
        out = redactor.feed(data[: cut + 1])
        rest = data[cut + 1 :]
        out += b"".join(redactor.feed(rest[i : i + size]) for i in range(0, len(rest), size))
        assert out + redactor.flush() == b"a" + MARK + b"b"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_what_holds_no_secret_comes_out_as_it_went_in(data, size):
    if SECRET.encode() not in data:
        assert redacted(data, size) == data


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([b"abcabcd", b"abc", b"bcabca", b"\n", b"x", b"cdabca"]), max_size=20),
    st.integers(1, 9),
)
def test_overlapping_secrets_never_show(pieces, size):
    secrets = [("A", "abcabcd"), ("B", "bcabca"), ("C", "cdabca")]
    out = redacted(b"".join(pieces), size, secrets)
    assert not any(value.encode() in out for _, value in secrets)
    assert out == redacted(b"".join(pieces), 1000, secrets)


def test_every_line_of_a_long_value_is_a_secret():
    out = redacted(b"got: line-two-x!", 4, [("PEM", "line-one-x\nline-two-x\nend")])
    assert out == b"got: [redacted:PEM]!"


def test_a_longer_secret_wins_over_one_inside_it():
    out = redacted(b"<abcdefghij>", 3, [("SHORT", "cdefgh"), ("LONG", "abcdefghij")])
    assert out == b"<[redacted:LONG]>"


def test_short_values_are_not_looked_for_and_needles_are_bounded():
    assert redacted(b"12345", 2, [("PIN", "12345")]) == b"12345"
    assert len(needles([(f"K{i}", f"value-{i:04}") for i in range(100)])) == MOST_NEEDLES


def test_a_tail_waits_only_while_it_may_become_a_secret():
    redactor = Redactor([("KEY", "abcdefgh")])
    assert redactor.feed(b"xabc") == b"x"
    assert redactor.holds
    assert redactor.feed(b"z") == b"abcz"
    assert not redactor.holds
    assert redactor.feed(b"ab") == b""
    assert redactor.flush() == b"ab"


def test_what_waits_is_bounded_whatever_comes():
    redactor = Redactor([("KEY", "aaaaaaaa")])
    out = b"".join(redactor.feed(b"a" * 10) + redactor.feed(b"\n" * 50) for _ in range(200))
    assert len(redactor._held) < 200
    assert b"aaaaaaaa" not in (out + redactor.flush()).translate(None, b"\n")


def test_a_stream_taken_over_midway_does_not_begin_with_the_rest_of_a_secret():
    redactor = Redactor([("KEY", "abcdefgh")], midway=True)
    assert redactor.feed(b"defgh and more") + redactor.flush() == b"[redacted:KEY] and more"
