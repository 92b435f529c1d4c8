"""The words of a client about environments: what `gpulayer env` does, with the same documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpulayer.sdk import environments
from gpulayer.sdk.failures import failure_of

if TYPE_CHECKING:
    from gpulayer.sdk.client import Submitter, Transport


class Environments:
    """Part of `client.Client`."""

    is_far: bool
    _submitter: Submitter

    def env_prepare(
        self, requirements: str | Sequence[str], /, *, timeout: Any = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Make an environment on every worker that matches, and wait: what came of it on each,
        {worker, state, why, job}, as `gpulayer env prepare --json` tells it. `state` is ready,
        failed, away, cancelled, or busy: no room within `timeout`, which is also how long the
        installation may take. `options` choose workers: gpus, gpu_memory, accelerator, profile,
        python, on, data."""
        needs = [requirements] if isinstance(requirements, str) else list(requirements)
        spec = environments.described(needs, options, timeout, is_far=self.is_far)
        transport = self._wire()
        origin, envelope = self._submitter.origin({})
        begun = environments.begin(transport, spec, origin, envelope, is_far=self.is_far)
        self._submitter.confirm()
        told = begun.documents
        try:
            for job_id, worker in begun.workers.items():
                job, gave_up = begun.wait(self.call, job_id)
                is_well = job["state"] in ("succeeded", "cancelled")
                error = None if is_well else failure_of(job)
                told.append(environments.document(worker, job, error, gave_up))
        except BaseException:
            begun.cancel(self.call)
            raise
        return told

    def env_ls(self, *, on: str | None = None) -> list[dict[str, Any]]:
        """The environments of all workers, or of one: {id, name, state, why, environments} each,
        as `gpulayer env ls --json` tells it. None: that worker did not answer, and `why`."""
        return environments.listed(self.call, on)

    def env_rm(
        self, *keys: str, unused: bool = False, on: str | None = None
    ) -> list[dict[str, Any]]:
        """Remove environments by their keys, or all that no job uses: what each worker did, as
        `gpulayer env rm --json` tells it. Raises RefusedError where a job uses a named one,
        NotFoundError where no worker has it."""
        done = environments.removed(self.call, keys, unused=unused, on=on)
        if wrong := environments.complaint(done, keys):
            raise wrong
        return done

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any:
        raise NotImplementedError

    def _wire(self) -> Transport:
        raise NotImplementedError
