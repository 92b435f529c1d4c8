"""Bytes between a file and an https address, in constant memory.

A download goes on where it was cut, for as long as each try brings it further, where the server
gives parts; else it begins anew. Redirects are followed a few times, and never from https to less.
Nothing that an address carries behind its `?` is part of an error: it may be a right.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from gpulayer.contracts.input_urls import shown

SILENT_SECONDS = 60.0
"""How long the other side may say nothing."""
TRIES = 6
"""So many in a row may bring it no further."""
REDIRECTS = 5
WAY = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy",
    "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip
"""What an environment says of the way to the web: whom to trust, and through whom to go."""
_PIECE = 1 << 20
_BEGINS = re.compile(r"bytes (\d+)-")


class WebError(OSError):
    """What went wrong, in a few words that name no right. `status` of an answer, or 0."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(0, why)
        self.why = why
        self.status = status


def download(
    url: str,
    sink: BinaryIO,
    *,
    most: int,
    look: Callable[[], object] = lambda: None,
    silent_seconds: float = SILENT_SECONDS,
    tries: int = TRIES,
    environ: Mapping[str, str] | None = None,
) -> None:
    """The bytes behind those that `sink` holds, up to `most` in all. `look` is called before each
    piece, and may raise. `environ`: whose way to the web it goes; None: our own. Raises
    WebError."""
    way = _Way(os.environ if environ is None else environ, silent_seconds)
    idle = 0
    while True:
        before = sink.tell()
        try:
            return _try(url, sink, most, look, way)
        except WebError as error:
            idle = 0 if sink.tell() > before else idle + 1
            is_over = error.status and error.status not in (408, 429, 500, 502, 503, 504)
            if is_over or idle >= tries:
                raise


def upload(url: str, body: BinaryIO, size: int, silent_seconds: float = SILENT_SECONDS) -> None:
    """PUT `size` bytes, once. Raises WebError; what `body` raises."""
    headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
    # Of a file http.client would take 8 KiB at a time.
    request = _request(url, headers, iter(lambda: body.read(_PIECE), b""))
    with _Way(os.environ, silent_seconds).answered(request) as answer:
        answer.read(_PIECE)


def _try(url: str, sink: BinaryIO, most: int, look: Callable[[], object], way: _Way) -> None:
    at = sink.tell()
    headers = {"Range": f"bytes={at}-"} if at else {}
    try:
        answer = way.answered(_request(url, headers))
    except WebError as error:
        if error.status != 416 or not at:
            raise
        _begin_anew(sink)  # there is no more than that: compared with its name it is whole or not
        answer = way.answered(_request(url, {}))
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
    url: str, headers: dict[str, str], body: Iterable[bytes] | None = None
) -> urllib.request.Request:
    if urlsplit(url).scheme not in ("https", "http"):
        raise WebError("it is no web address")
    method = "GET" if body is None else "PUT"
    return urllib.request.Request(url, body, headers, method=method)  # noqa: S310  looked at above


class _Way:
    """To the web alone: what comes back may point anywhere."""

    def __init__(self, environ: Mapping[str, str], silent_seconds: float) -> None:
        self._silent_seconds = silent_seconds
        self._environ = environ
        self._trust = ssl.create_default_context()
        file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
        if file or folder:
            try:
                self._trust.load_verify_locations(file or None, folder or None)
            except OSError as error:
                raise WebError(f"SSL_CERT_FILE cannot be read: {_said(error)}", 400) from None

    def answered(self, request: urllib.request.Request) -> Any:
        try:
            opener = self._opener(request.host)
            return opener.open(request, timeout=self._silent_seconds)
        except urllib.error.HTTPError as error:
            with error:
                raise WebError(_refusal(error.code), error.code) from None
        except urllib.error.URLError as error:
            raise WebError(_said(error.reason)) from None
        except WebError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise WebError(_said(error)) from None

    def _opener(self, host: str) -> urllib.request.OpenerDirector:
        opener = urllib.request.OpenerDirector()
        for part in (
            urllib.request.ProxyHandler(self._proxies(host)),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=self._trust),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(),
        ):
            opener.add_handler(part)
        return opener

    def _proxies(self, host: str) -> dict[str, str]:
        bypassed = self._value("no_proxy")
        if bypassed and _is_bypassed(host, {"no": bypassed}):
            return {}
        whole = self._value("all_proxy")
        named = {scheme: self._value(f"{scheme}_proxy") or whole for scheme in ("http", "https")}
        return {scheme: proxy for scheme, proxy in named.items() if proxy}

    def _value(self, name: str) -> str:
        return self._environ.get(name) or self._environ.get(name.upper()) or ""


_is_bypassed: Callable[[str, Mapping[str, str]], bool]
_is_bypassed = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined]


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        is_less = urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https"
        if is_less or req.get_method() != "GET":
            raise WebError(f"it points to {shown(newurl)}, and that is not followed", code)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refusal(status: int) -> str:
    """Without the server's own words: they may hold a right."""
    if 300 <= status < 400:
        return f"it answered {status}: it points elsewhere, and that is not followed"
    return f"it answered {status} {http.client.responses.get(status, '')}".rstrip()


def _said(error: object) -> str:
    text = str(getattr(error, "strerror", None) or error or type(error).__name__)
    return re.sub(r"\?\S*", "", text)[:200]


def _too_large(most: int) -> WebError:
    return WebError(f"it has more than {most:,} bytes", 413)
