"""What a connection from anybody may cost, with limits small enough to reach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpulayer.api.listener import Listener
from gpulayer.api.strangers import Limits

SECONDS = 30.0
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
Story = Callable[
    [Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]], Awaitable[None]
]


async def echo(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    said = b"private" if scope["state"] else body
    head = [(b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": said})


def told(limits: Limits, story: Story) -> None:
    async def run() -> None:
        import socket

        sock = socket.create_server(("127.0.0.1", 0))
        listener = Listener(echo)
        await listener.open_to_strangers(sock, None, limits)
        writers: list[asyncio.StreamWriter] = []

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            pair = await asyncio.open_connection(*sock.getsockname())
            writers.append(pair[1])
            return pair

        try:
            await asyncio.wait_for(story(connect), SECONDS)
        finally:
            for writer in writers:
                writer.close()
            await listener.close()
            sock.close()

    asyncio.run(run())


def test_a_head_that_never_ends_is_ended() -> None:
    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        for begun in (b"", b"GET / HTTP/1.1\r\nX: "):
            reader, writer = await connect()
            writer.write(begun)
            assert (await reader.read()).startswith(b"HTTP/1.1 408")

    told(Limits(header_seconds=0.2), story)


def test_a_head_that_drips_is_ended_all_the_same() -> None:
    """Each byte comes in time, the head does not. What is sent while it is ended may cost it the
    answer (RFC 9112, 9.6), and never the end."""

    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        reader, writer = await connect()
        answer = asyncio.ensure_future(reader.read())
        writer.write(b"GET / HTTP/1.1\r\n")
        while not answer.done():
            if not writer.is_closing():
                writer.write(b"X: y\r\n")
            await asyncio.wait((answer,), timeout=0.05)
        try:
            said = answer.result()
        except ConnectionResetError:
            return
        assert said.startswith(b"HTTP/1.1 408")

    told(Limits(header_seconds=0.5, header_bytes=1 << 20), story)


def test_a_body_that_stops_coming_is_ended_and_a_slow_one_is_not() -> None:
    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        reader, writer = await connect()
        writer.write(REQUEST + b"ab")
        assert (await reader.read()).startswith(b"HTTP/1.1 408")
        reader, writer = await connect()
        writer.write(REQUEST)
        for byte in (b"a", b"b", b"c", b"d"):
            await asyncio.wait((asyncio.ensure_future(asyncio.Event().wait()),), timeout=0.3)
            writer.write(byte)
        assert (await reader.readuntil(b"abcd")).startswith(b"HTTP/1.1 200")

    told(Limits(body_seconds=1.0), story)


def test_a_connection_may_rest_between_requests() -> None:
    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        reader, writer = await connect()
        for _ in range(2):
            writer.write(REQUEST + b"abcd")
            await reader.readuntil(b"abcd")
            await asyncio.wait((asyncio.ensure_future(asyncio.Event().wait()),), timeout=1.5)
        assert not reader.at_eof()

    told(Limits(header_seconds=1.0, body_seconds=1.0), story)


def test_one_more_connection_than_there_may_be_is_turned_away() -> None:
    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        held = [await connect() for _ in range(3)]
        for reader, writer in held:
            writer.write(REQUEST + b"abcd")
            await reader.readuntil(b"abcd")
        reader, _ = await connect()
        assert (await reader.read()).startswith(b"HTTP/1.1 503")
        held.pop()[1].close()
        while True:  # its end is heard a moment later
            reader, writer = await connect()
            writer.write(REQUEST + b"abcd")
            if not (await reader.readline()).startswith(b"HTTP/1.1 503"):
                break

    told(Limits(connections=3), story)


@pytest.mark.parametrize("size", [100, 101])
def test_the_limit_of_a_head_is_exact_however_it_is_cut(size: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nX: "
    head += b"a" * (size - len(head))

    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        for cut in (0, 50, size, size + 1, size + 2, size + 3):
            reader, writer = await connect()
            whole = head + b"\r\n\r\nabcd"
            writer.write(whole[:cut])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(whole[cut:])
            status = (await reader.readline()).split()[1]
            assert status == (b"200" if size == 100 else b"431"), cut

    told(Limits(header_bytes=100), story)


def test_a_stranger_is_never_taken_for_the_private_socket() -> None:
    async def story(connect) -> None:  # type: ignore[no-untyped-def]
        reader, writer = await connect()
        writer.write(REQUEST + b"abcd")
        assert (await reader.readuntil(b"abcd")).endswith(b"abcd")

    told(Limits(), story)
