"""A web server of files, over TLS or not: with parts or without, cut in the middle, pointing
elsewhere."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class WebSite:
    """`files`: path -> bytes. `redirects`: path -> where. `cut_after`: each answer ends after so
    many bytes. `asked`: every path that was asked for, with its range."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.cut_after: int | None = None
        self.has_parts = True
        self.status = 0
        """Every answer has this one, and `said` as its body."""
        self.said = b""
        self.asked: list[tuple[str, str]] = []
        site = self

        class Page(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site._answer(self)

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                site._answer(self)

            def do_HEAD(self) -> None:
                site._answer(self)

            def log_message(self, *words: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.port = int(self._server.server_address[1])
        self.url = f"{scheme}://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, page: BaseHTTPRequestHandler) -> None:
        path, wish = page.path.partition("?")[0], page.headers.get("Range", "")
        self.asked.append((path, wish))
        if self.status:
            self._say(page, self.status, self.said)
        elif path in self.redirects:
            self._say(page, 302, b"", Location=self.redirects[path])
        elif path not in self.files:
            self._say(page, 404, b"nothing here")
        else:
            data = self.files[path]
            part = re.fullmatch(r"bytes=(\d+)-", wish) if self.has_parts else None
            start = int(part[1]) if part else 0
            if part and start >= len(data):
                self._say(page, 416, b"")
            elif part:
                told = f"bytes {start}-{len(data) - 1}/{len(data)}"
                self._say(page, 206, data[start:], Content_Range=told)
            else:
                self._say(page, 200, data)

    def _say(self, page: BaseHTTPRequestHandler, status: int, data: bytes, **more: str) -> None:
        page.send_response(status)
        page.send_header("Content-Length", str(len(data)))
        for name, value in more.items():
            page.send_header(name.replace("_", "-"), value)
        page.end_headers()
        if page.command == "HEAD":
            return
        page.wfile.write(data if self.cut_after is None else data[: self.cut_after])
        if self.cut_after is not None and len(data) > self.cut_after:
            page.close_connection = True


@contextmanager
def answering(status: int, said: bytes) -> Iterator[int]:
    """Whatever is asked; the port."""
    site = WebSite()
    site.status, site.said = status, said
    try:
        yield site.port
    finally:
        site.close()
