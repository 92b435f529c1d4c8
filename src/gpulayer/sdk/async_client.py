"""The client for programs that use asyncio: the same words, awaited.

Each call runs in a thread of the loop's executor; waiting for jobs takes none, since `Job` is
awaitable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.errors import JobError
from gpulayer.sdk.client import Client
from gpulayer.sdk.connect import current
from gpulayer.sdk.job import Job


class AsyncClient:
    """Wraps a `Client`; without one, the process's current client."""

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    async def submit(self, work: Sequence[str] | Mapping[str, Any], /, **options: Any) -> Job:
        """As `Client.submit`. `await job` then gives the result."""
        return await asyncio.to_thread(lambda: self._sync().submit(work, **options))

    async def run(self, command: Sequence[str], /, *, check: bool = False, **options: Any) -> Job:
        """As `Client.run`, with nothing copied to our output. Cancelling it cancels the job."""
        submitting = asyncio.ensure_future(
            self.submit(command, **{"on_unschedulable": "fail", **options})
        )
        try:
            job = await asyncio.shield(submitting)
            await job
        except asyncio.CancelledError:
            job = await submitting  # it may be on its way already
            await asyncio.to_thread(job.cancel)
            raise
        except JobError:
            if check:
                raise
        return submitting.result()

    async def plan(
        self, work: Sequence[str] | Mapping[str, Any], /, **options: Any
    ) -> dict[str, Any]:
        """As `Client.plan`."""
        return await asyncio.to_thread(lambda: self._sync().plan(work, **options))

    async def job(self, selector: str) -> Job:
        """As `Client.job`."""
        return await asyncio.to_thread(lambda: self._sync().job(selector))

    async def jobs(self, *, all: bool = False, limit: int = 1_000) -> list[Job]:  # noqa: A002
        """As `Client.jobs`."""
        return await asyncio.to_thread(lambda: self._sync().jobs(all=all, limit=limit))

    async def env_prepare(
        self, requirements: str | Sequence[str], /, **options: Any
    ) -> list[dict[str, Any]]:
        """As `Client.env_prepare`."""
        return await asyncio.to_thread(lambda: self._sync().env_prepare(requirements, **options))

    async def env_ls(self, *, on: str | None = None) -> list[dict[str, Any]]:
        """As `Client.env_ls`."""
        return await asyncio.to_thread(lambda: self._sync().env_ls(on=on))

    async def env_rm(
        self, *keys: str, unused: bool = False, on: str | None = None
    ) -> list[dict[str, Any]]:
        """As `Client.env_rm`."""
        return await asyncio.to_thread(lambda: self._sync().env_rm(*keys, unused=unused, on=on))

    async def gather(self, *jobs: Job, return_exceptions: bool = False) -> list[Any]:
        """The results of all jobs, in the given order."""
        return list(await asyncio.gather(*jobs, return_exceptions=return_exceptions))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    def _sync(self) -> Client:
        return self._client or current()
