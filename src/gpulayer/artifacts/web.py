"""Bytes between a file and an https address, in constant memory.

A download goes on where it was cut, for as long as each try brings it further, where the server
gives parts; else it begins anew. Redirects are followed a few times, and never from https to less.
Nothing that an address carries behind its `?` is part of an error: it may be a right.
"""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, BinaryIO
from urllib.parse import urlsplit

SILENT_SECONDS = 60.0
"""How long the other side may say nothing."""
TRIES = 6
"""So many in a row may bring it no further."""
REDIRECTS = 5
_PIECE = 1 << 20
_BEGINS = re.compile(r"bytes (\d+)-")


class WebError(OSError):
    """What went wrong, in a few words that name no right. `status` of an answer, or 0."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(0, why)
        self.why = why
        self.status = status


def shown(url: str) -> str:
    """An address without what may be a right in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def download(
    url: str,
    sink: BinaryIO,
    *,
    most: int,
    look: Callable[[], object] = lambda: None,
    silent_seconds: float = SILENT_SECONDS,
    tries: int = TRIES,
) -> None:
    """The bytes behind those that `sink` holds, up to `most` in all. `look` is called before each
    piece, and may raise. Raises WebError."""
    idle = 0
    while True:
        before = sink.tell()
        try:
            return _try(url, sink, most, look, silent_seconds)
        except WebError as error:
            idle = 0 if sink.tell() > before else idle + 1
            is_over = error.status and error.status not in (408, 429, 500, 502, 503, 504)
            if is_over or idle >= tries:
                raise


def upload(url: str, body: BinaryIO, size: int, silent_seconds: float = SILENT_SECONDS) -> None:
    """PUT `size` bytes, once. Raises WebError; what `body` raises."""
    headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
    request = _request(url, headers, body)
    with _answered(request, silent_seconds) as answer:
        answer.read(_PIECE)


def _try(
    url: str, sink: BinaryIO, most: int, look: Callable[[], object], silent_seconds: float
) -> None:
    at = sink.tell()
    headers = {"Range": f"bytes={at}-"} if at else {}
    try:
        answer = _answered(_request(url, headers), silent_seconds)
    except WebError as error:
        if error.status != 416 or not at:
            raise
        _begin_anew(sink)  # there is no more than that: compared with its name it is whole or not
        answer = _answered(_request(url, {}), silent_seconds)
    with answer:
        began = _BEGINS.match(answer.headers.get("Content-Range", ""))
        if answer.status != 206 or began is None or int(began[1]) != at:
            _begin_anew(sink)
        told = answer.headers.get("Content-Length", "")
        if told.isdigit() and sink.tell() + int(told) > most:
            raise _too_large(most)
        left = int(told) if told.isdigit() else None
        while True:
            look()
            try:
                data = answer.read(_PIECE)
            except (OSError, http.client.HTTPException) as error:
                raise WebError(_said(error)) from None
            if not data:
                break
            if sink.tell() + len(data) > most:
                raise _too_large(most)
            sink.write(data)
            left = None if left is None else left - len(data)
        if left:
            raise WebError("the connection ended in the middle")


def _begin_anew(sink: BinaryIO) -> None:
    sink.seek(0)
    sink.truncate()


def _request(
    url: str, headers: dict[str, str], body: BinaryIO | None = None
) -> urllib.request.Request:
    if urlsplit(url).scheme not in ("https", "http"):
        raise WebError("it is no web address")
    method = "GET" if body is None else "PUT"
    return urllib.request.Request(url, body, headers, method=method)  # noqa: S310  looked at above


def _answered(request: urllib.request.Request, silent_seconds: float) -> Any:
    try:
        return _opener().open(request, timeout=silent_seconds)
    except urllib.error.HTTPError as error:
        with error:
            raise WebError(f"it answered {error.code} {error.reason}"[:200], error.code) from None
    except urllib.error.URLError as error:
        raise WebError(_said(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise WebError(_said(error)) from None


def _opener() -> urllib.request.OpenerDirector:
    """Of the web alone: what comes back may point anywhere."""
    opener = urllib.request.OpenerDirector()
    for part in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(part)
    return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        is_less = urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https"
        if is_less or req.get_method() != "GET":
            raise WebError(f"it points to {shown(newurl)}, and that is not followed", code)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _said(error: object) -> str:
    text = str(getattr(error, "strerror", None) or error or type(error).__name__)
    return re.sub(r"\?\S*", "", text)[:200]


def _too_large(most: int) -> WebError:
    return WebError(f"it has more than {most:,} bytes", 413)
