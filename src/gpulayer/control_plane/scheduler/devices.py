"""The devices of one machine against what a job asks of them, stage by stage.

Each stage lets through the devices that pass it; the first one that leaves too few is the reason.
So the reasons never contradict each other, and they say together exactly which devices would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from gpulayer.contracts.capabilities import GpuDevice
from gpulayer.contracts.decision import Check, Fit, Shape
from gpulayer.control_plane.scheduler.views import ALL, GpuFact, Machine
from gpulayer.gpu.support import MATRIX, capability, is_model, reaches_capability
from gpulayer.gpu.visibility import allowed

_T = TypeVar("_T", float, tuple[int, int])


class GpuNeed(NamedTuple):
    accelerator: str
    gpus: int
    models: tuple[str, ...]
    memory_gb: float | None
    memory_kind: str | None
    capability: str | None
    """CUDA's, at least."""
    visible: tuple[str, ...] | None


class Funnel(NamedTuple):
    checks: tuple[Check, ...]
    usable: int
    """Bits of the devices that pass every stage; those held by our own tasks included."""


def need_of(shape: Shape) -> GpuNeed | None:
    """What a shape asks of devices; None when it asks for none."""
    if not shape.gpus:
        return None
    kind = shape.gpu_memory_kind or ("dedicated" if shape.gpu_memory_gb is not None else None)
    return GpuNeed(
        shape.accelerator,
        shape.gpus,
        shape.gpu_models,
        shape.gpu_memory_gb,
        kind,
        shape.min_compute_capability,
        shape.visible_gpus,
    )


def fact_of(need: GpuNeed, machine: Machine) -> GpuFact:
    if need.visible is None or machine.view.target != "local":
        return machine.now.gpu_fact
    return machine.now.gpu_fact._replace(shown=_shown(need.visible, machine))


@lru_cache(maxsize=2048)
def funnel(need: GpuNeed, fact: GpuFact) -> Funnel:
    """All stages in order, up to the first that leaves fewer than `need.gpus` devices."""
    row = MATRIX.get(need.accelerator)
    wanted = _gpus(need.gpus, need.accelerator)
    if row is None or not row.scheduled:
        why = row.note if row else "unknown accelerator"
        return _stop(Check("accelerator", Fit.NEVER, wanted, f"no support for it: {why}", 1.0))
    if row.max_devices is not None and need.gpus > row.max_devices:
        have = f"{row.max_devices} at most: {row.note}"
        return _stop(Check("gpu_count", Fit.NEVER, wanted, have, 1.0))
    if fact.layout is None:
        return _stop(Check("gpu_count", Fit.UNKNOWN, wanted, "not finished looking for GPUs"))
    state = _State(need, fact)
    checks = []
    for stage in _STAGES:
        check = stage(state)
        if check is not None:
            checks.append(check)
            if check.fit in (Fit.NEVER, Fit.BUSY):
                break
    return Funnel(tuple(checks), state.sure)


class _State:
    """What is left after the stages so far. `maybe` holds `sure` and the not yet known."""

    def __init__(self, need: GpuNeed, fact: GpuFact) -> None:
        assert fact.layout is not None
        self.need = need
        self.fact = fact
        self.devices = fact.layout.devices
        self.sure = self.maybe = (1 << len(self.devices)) - 1

    def left(self) -> Iterator[GpuDevice]:
        return (d for i, d in enumerate(self.devices) if self.maybe >> i & 1)

    def narrow(self, keep: Callable[[GpuDevice], bool | None], worst: Fit = Fit.NEVER) -> Fit:
        """Drop what `keep` denies. UNKNOWN is said once, where it first matters."""
        answers = [keep(device) for device in self.devices]
        was_enough = self.sure.bit_count() >= self.need.gpus
        self.sure &= sum(1 << i for i, answer in enumerate(answers) if answer)
        self.maybe &= sum(1 << i for i, answer in enumerate(answers) if answer is not False)
        if self.maybe.bit_count() < self.need.gpus:
            return worst
        enough = self.sure.bit_count() >= self.need.gpus
        return Fit.UNKNOWN if was_enough and not enough else Fit.YES

    def gap(self) -> float:
        return max(0.0, 1 - self.maybe.bit_count() / self.need.gpus)


def _kind(state: _State) -> Check:
    vendors = MATRIX[state.need.accelerator].vendors
    others = sorted({d.vendor for d in state.devices if d.vendor not in vendors})
    fit = state.narrow(lambda d: d.vendor in vendors)
    have = str(state.maybe.bit_count() or "none")
    if fit is not Fit.YES and (others or state.fact.note):
        have += f" ({state.fact.note or 'only ' + ', '.join(others)})"
    need = _gpus(state.need.gpus, state.need.accelerator)
    return Check("gpu_count", fit, need, have, state.gap())


def _whole(state: _State) -> Check | None:
    # CUDA shows one MIG instance per process: several of them are of no use to one job.
    instances = sum(d.mig_parent is not None for d in state.left())
    if state.need.gpus == 1 or not instances:
        return None
    fit = state.narrow(lambda d: d.mig_parent is None)
    have = f"{state.maybe.bit_count()} besides {instances} MIG instances"
    return Check("gpu_whole", fit, f"{state.need.gpus} whole GPUs", have, state.gap())


def _visible(state: _State) -> Check | None:
    if state.need.visible is None or state.fact.shown == ALL:
        return None
    before = state.maybe.bit_count()
    shown = {id(d) for i, d in enumerate(state.devices) if state.fact.shown >> i & 1}
    fit = state.narrow(lambda d: id(d) in shown)
    need = f"{_gpus(state.need.gpus)} that the terminal's CUDA_VISIBLE_DEVICES shows"
    return Check("gpu_visible", fit, need, f"{state.maybe.bit_count()} of {before}", state.gap())


def _model(state: _State) -> Check | None:
    models = state.need.models
    if not models:
        return None
    there = ", ".join(sorted({d.model for d in state.left()})) or "none"
    fit = state.narrow(lambda d: any(is_model(d.model, m) for m in models))
    matching = state.maybe.bit_count()
    have = f"{matching} among {there}" if fit is Fit.NEVER and matching else there
    count = f"{state.need.gpus} x " if state.need.gpus > 1 else ""
    return Check("gpu_model", fit, count + " or ".join(models), have, state.gap())


def _memory_kind(state: _State) -> Check | None:
    kind = state.need.memory_kind
    if kind is None:
        return None
    there = " and ".join(sorted({d.memory_kind for d in state.left()}))
    fit = state.narrow(lambda d: d.memory_kind == kind)
    return Check("gpu_memory_kind", fit, f"{kind} GPU memory", there, state.gap())


def _memory(state: _State) -> Check | None:
    need = state.need.memory_gb
    if need is None:
        return None
    sizes = [d.memory_gb for d in state.left()]
    fit = state.narrow(lambda d: None if d.memory_gb is None else d.memory_gb >= need)
    have = _reached(sizes, state.need.gpus)
    text = "memory that is not known yet" if have is None else f"{number(have)} GB"
    gap = 0.0 if have is None else max(0.0, 1 - have / need)
    return Check("gpu_memory", fit, f"{need:g} GB per GPU", text, gap)


def _capability(state: _State) -> Check | None:
    need = state.need.capability
    if need is None:
        return None
    there = [
        capability(d.compute_capability) if d.compute_capability else None for d in state.left()
    ]
    vendors = {d.vendor for d in state.left()}
    # A device that is not CUDA's has no such number, and never will.
    fit = state.narrow(
        lambda d: reaches_capability(d.compute_capability, need) if d.vendor == "nvidia" else False
    )
    have = _reached(there, state.need.gpus)
    text = "one that is not known yet" if have is None else f"{have[0]}.{have[1]}"
    if vendors == {"apple"}:
        text = "none: not a CUDA device"
    gap = 1.0 if fit is Fit.NEVER else 0.0
    return Check("gpu_capability", fit, f"compute capability {need}", text, gap)


def _health(state: _State) -> Check | None:
    before = state.maybe.bit_count()
    why = sorted({d.unhealthy_why or "unhealthy" for d in state.left() if d.healthy is False})
    fit = state.narrow(lambda d: d.healthy)
    have = f"{state.sure.bit_count()} of {before}"
    have += " looked at" if fit is Fit.UNKNOWN else f" ({'; '.join(why)})" if why else ""
    need = _gpus(state.need.gpus, "healthy")
    return Check("gpu_health", fit, need, have, state.gap())


def _foreign(state: _State) -> Check | None:
    held = [d for d in state.left() if d.foreign_pids]
    if not held:
        return None
    before = state.maybe.bit_count()
    fit = state.narrow(lambda d: not d.foreign_pids, worst=Fit.BUSY)
    pids = sorted({pid for d in held for pid in d.foreign_pids})
    who = ("process " if len(pids) == 1 else "processes ") + ", ".join(map(str, pids[:4]))
    more = f" and {len(pids) - 4} more" if len(pids) > 4 else ""
    verb = "uses" if len(pids) == 1 else "use"
    used = sum(d.foreign_memory_gb for d in held)
    have = f"{state.maybe.bit_count()} of {before}: {who}{more} {verb} {number(used)} GB"
    need = f"{_gpus(state.need.gpus)} that no other program uses"
    return Check("gpu_foreign", fit, need, have, state.gap())


def _free(state: _State) -> Check:
    free = (state.maybe & state.fact.free).bit_count()
    doubtful = free - (state.sure & state.fact.free).bit_count()
    have = f"{free} of {state.maybe.bit_count()}"
    fit = Fit.YES if free >= state.need.gpus else Fit.BUSY
    is_known = state.sure.bit_count() >= state.need.gpus
    if fit is Fit.YES and is_known and free - doubtful < state.need.gpus:
        fit = Fit.UNKNOWN
        have += f", {doubtful} of them not known well enough"
    gap = max(0.0, 1 - free / state.need.gpus)
    return Check("gpu_free", fit, _gpus(state.need.gpus, "free"), have, gap)


_STAGES: tuple[Callable[[_State], Check | None], ...] = (
    _kind,
    _whole,
    _visible,
    _model,
    _memory_kind,
    _memory,
    _capability,
    _health,
    _foreign,
    _free,
)


def number(value: float) -> str:
    """`24`, `79.9`, `0.25`: what there is, with no more digits than people read. Rounded down, so
    that too little never looks like enough."""
    scale = 100 if value < 10 else 10
    return f"{math.floor(value * scale + 1e-6) / scale:g}"


def _stop(check: Check) -> Funnel:
    return Funnel((check,), 0)


def _gpus(count: int, kind: str = "") -> str:
    """`1 GPU`, `2 cuda GPUs`."""
    words = (str(count), kind, "GPU" if count == 1 else "GPUs")
    return " ".join(word for word in words if word and word != "gpu")


def _reached(values: Sequence[_T | None], count: int) -> _T | None:
    """The best value that `count` devices reach, the unknown ones taken for the best of all.
    None: an unknown one decides."""
    known = sorted((v for v in values if v is not None), reverse=True)
    place = count - 1 - (len(values) - len(known))
    return known[place] if place >= 0 else None


def _shown(visible: tuple[str, ...], machine: Machine) -> int:
    """Bits of the devices that the list shows, read as CUDA reads its variable."""
    environ = {"CUDA_VISIBLE_DEVICES": ",".join(visible)}
    kept = {device.uuid for device in allowed(machine.caps.gpus or (), environ)}
    return sum(1 << bit for bit, uuid in enumerate(machine.uuids) if uuid in kept)
