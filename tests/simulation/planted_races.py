"""Faults of ours, one for each of the scripted `races`."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from typing import Any

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.messages import Register, Registered
from gpulayer.contracts.states import Reason
from gpulayer.control_plane.plane import ControlPlane
from tests.simulation.seams import ChangedStore, ChangedTx


class EndsAreForgotten(ControlPlane):
    """What a worker comes back with after its task was given up is not asked for."""

    def register(self, message: Register) -> Future[Registered]:
        reply = super().register(message).result(0)
        ended = tuple(held.task_id for held in message.inventory if held.phase == "exited")
        changed: Future[Registered] = Future()
        changed.set_result(dataclasses.replace(reply, forget=ended))
        return changed


class PeersAreNotTold(ControlPlane):
    """A node's failure is not told to the workers of the others."""

    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _KeepsPeers), *ports)


class _KeepsPeers(ChangedTx):
    def apply(self, changes: Changes, **how: Any) -> Any:
        kept = tuple(
            update
            for update in changes.job_updates
            if update.values.get("cancel_reason") is not Reason.PEER_FAILED
        )
        return self._tx.apply(dataclasses.replace(changes, job_updates=kept), **how)


class NoCrashIsCounted(ControlPlane):
    """A task may take its worker with it as often as it has attempts."""

    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _Innocent), *ports)


class _Innocent(ChangedTx):
    def job(self, job_id: Any) -> Any:
        job = self._tx.job(job_id)
        return job and dataclasses.replace(job, lost=0)
