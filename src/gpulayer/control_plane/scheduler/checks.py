"""Every reason why a worker does or does not fit, in the order in which they are told.

A rule compares one need of a shape with one fact of a machine. The check that rejects is the text
that explains: there is no second place that words it. Facts have three values; what is not known
yet is UNKNOWN, which waits, and only a fact that is known can say NEVER.

A new reason is one function and one row of `RULES`. All stand together, which makes
this longer than others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from gpulayer.contracts.decision import Check, Fit, Shape
from gpulayer.contracts.secret_names import ANY, is_name
from gpulayer.control_plane.scheduler import devices
from gpulayer.control_plane.scheduler.devices import number
from gpulayer.control_plane.scheduler.views import GpuFact, Kept, Machine, micro

_TOLD = 3
"""Of a machine's data sets or secrets, in words."""
_WORST_FIRST = (Fit.NEVER, Fit.UNKNOWN, Fit.BUSY, Fit.YES)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table."""

    name: str
    need: Callable[[Shape], Hashable]
    """What a shape asks for; None or empty: nothing, and the rule is not applied."""
    fact: Callable[[Any, Machine], Hashable]
    """What of a machine the answer depends on, and nothing else."""
    judge: Callable[[Any, Any], tuple[Check, ...]]
    changes: bool = False
    """Whether a placement changes the fact."""


def worst_first(checks: Iterable[Check]) -> tuple[Check, ...]:
    """NEVER, UNKNOWN, BUSY, YES; equals stay in their order."""
    checks = tuple(checks)
    for check in checks:
        if check.fit is not Fit.YES:
            break
    else:
        return checks
    return tuple(check for fit in _WORST_FIRST for check in checks if check.fit is fit)


def severity(fit: Fit) -> int:
    """0 for YES up to 3 for NEVER."""
    return 3 - _WORST_FIRST.index(fit)


def _target(need: tuple[str, ...], have: str) -> tuple[Check, ...]:
    return _one_of("target", need, have, "target ")


def _state(need: bool, have: tuple[bool, bool]) -> tuple[Check, ...]:
    draining, offline = have
    if offline:
        return (Check("state", Fit.UNKNOWN, "a worker that is online", "no connection to it"),)
    fit = Fit.BUSY if draining else Fit.YES
    text = "one that drains" if draining else "one that does"
    return (Check("state", fit, "a worker that takes jobs", text),)


def _pinned(need: tuple[str, ...], have: tuple[str, str]) -> tuple[Check, ...]:
    fit = Fit.YES if set(have) & set(need) else Fit.NEVER
    return (Check("worker", fit, f"worker {' or '.join(need)}", have[1], _gap(fit)),)


def _labels(need: tuple[tuple[str, str], ...], have: tuple[str | None, ...]) -> tuple[Check, ...]:
    return tuple(
        Check(
            "label",
            fit := Fit.YES if found == value else Fit.NEVER,
            f"label {key}={value}",
            "no such label" if found is None else f"{key}={found}",
            _gap(fit),
        )
        for (key, value), found in zip(need, have, strict=True)
    )


def _os(need: tuple[str, ...], have: str) -> tuple[Check, ...]:
    return _one_of("os", need, have)


def _arch(need: tuple[str, ...], have: str) -> tuple[Check, ...]:
    return _one_of("cpu_arch", need, have)


def _cores(need: int, have: tuple[int, int]) -> tuple[Check, ...]:
    amount, noun = f"{need / 1_000_000:g}", "core" if need == micro(1) else "cores"
    ever, now = f"{amount} {noun}", f"{amount} free {noun}"
    return (_amount("cpu_cores", need, *have, ever, now, unit=""),)


def _memory(need: int, have: tuple[int | None, int]) -> tuple[Check, ...]:
    total, free = have
    amount = f"{need / 1_000_000:g}"
    ever, now = f"{amount} GB of memory", f"{amount} GB of free memory"
    if total is None:
        return (Check("memory", Fit.UNKNOWN, ever, "an amount that is not known yet"),)
    return (_amount("memory", need, total, free, ever, now, unit=" GB"),)


def _disk(need: float, have: float | None) -> tuple[Check, ...]:
    text = f"{need:g} GB of disk"
    if have is None:
        return (Check("disk", Fit.UNKNOWN, text, "an amount that is not known yet"),)
    fit = Fit.YES if have >= need else Fit.NEVER
    return (Check("disk", fit, text, f"{number(have)} GB", max(0.0, 1 - have / need)),)


def _data(
    need: tuple[tuple[str, ...], tuple[str, ...]], have: tuple[tuple[str, ...], bool]
) -> tuple[Check, ...]:
    wanted, in_terminal = need
    declared, is_here = have
    had = {*declared, *(in_terminal if is_here else ())}
    return _by_name("data", "data set", wanted, had)


def _secrets(
    need: tuple[tuple[str, ...], bool], have: tuple[tuple[str, ...] | None, bool]
) -> tuple[Check, ...]:
    wanted, in_terminal = need
    given, is_here = have
    if in_terminal and is_here:
        return _by_name("secret", "secret", wanted, set(wanted))
    if given is None:
        text = "a list of its own that cannot be read"
        return tuple(Check("secret", Fit.UNKNOWN, f"secret {name}", text) for name in wanted)
    any_name = filter(is_name, wanted if ANY in given else ())
    return _by_name("secret", "secret", wanted, {*given, *any_name})


def _by_name(check: str, noun: str, wanted: Iterable[str], had: Set[str]) -> tuple[Check, ...]:
    some = ", ".join(sorted(had)[:_TOLD]) + (", ..." if len(had) > _TOLD else "")
    return tuple(
        Check(
            check,
            fit := Fit.YES if name in had else Fit.NEVER,
            f"{noun} {name}",
            name if fit is Fit.YES else f"only {some}" if had else "none",
            _gap(fit),
        )
        for name in wanted
    )


def _image(need: bool, have: tuple[str | None, str]) -> tuple[Check, ...]:
    text = "Podman or Docker, for its image"
    engine, note = have
    if engine is None:
        return (Check("image", Fit.UNKNOWN, text, "not been looked at yet"),)
    fit = Fit.YES if engine else Fit.NEVER
    return (Check("image", fit, text, engine or note or "neither", _gap(fit)),)


def _gpus(need: devices.GpuNeed, have: GpuFact) -> tuple[Check, ...]:
    return devices.funnel(need, have).checks


def _python(need: tuple[str, str | None, str | None], have: str | None) -> tuple[Check, ...]:
    return (_version("python", "Python", need[0], have, known=have is not None),)


def _frameworks(
    need: tuple[tuple[tuple[str, str], ...], str | None], have: tuple[str | None, ...] | None
) -> tuple[Check, ...]:
    known = have is not None
    found = have if have is not None else (None,) * len(need[0])
    return tuple(
        _version("framework", name, spec, version, known)
        for (name, spec), version in zip(need[0], found, strict=True)
    )


def _provider(need: tuple[str, ...], have: tuple[bool, str | None]) -> tuple[Check, ...]:
    return _where("provider", need, have)


def _region(need: tuple[str, ...], have: tuple[bool, str | None]) -> tuple[Check, ...]:
    return _where("region", need, have)


def _price(need: tuple[float, str], have: tuple[bool, float | None, str]) -> tuple[Check, ...]:
    cap, currency = need
    rented, cost, in_currency = have
    text = f"at most {cap:.2f} {currency} an hour"
    if cost is None and not rented:
        return (Check("price", Fit.YES, text, "no price: a machine of one's own"),)
    if cost is None:
        return (Check("price", Fit.NEVER, text, "no price", 1.0),)
    fit = Fit.YES if cost <= cap and currency == in_currency else Fit.NEVER
    gap = max(0.0, 1 - cap / cost) if currency == in_currency and cost else _gap(fit)
    return (Check("price", fit, text, f"{cost:.2f} {in_currency}", gap),)


def _reservation(
    need: tuple[int, int, devices.GpuNeed | None], have: tuple[Kept | None, GpuFact | None]
) -> tuple[Check, ...]:
    cores, memory, gpus = need
    kept, fact = have
    if kept is None:
        return ()
    fits = cores <= kept.cores and (not memory or memory <= kept.memory)
    if gpus is not None and fact is not None:
        beside = devices.funnel(gpus, fact._replace(free=fact.free & kept.gpus))
        fits = fits and all(check.fit is not Fit.BUSY for check in beside.checks)
    fit = Fit.YES if fits else Fit.BUSY
    text = f"the reservation of {kept.job_id}{_about(kept.until)}"
    return (Check("reservation", fit, "room for longer", text, 0.0 if fits else 1.0),)


def _about(start: float | None) -> str:
    """To the minute, rounded up; the same for every reader."""
    if start is None:
        return ""
    at = datetime.fromtimestamp(math.ceil(start / 60) * 60, UTC)
    return f" for about {at:%Y-%m-%d %H:%M} UTC"


RULES: tuple[Rule, ...] = (
    Rule("target", lambda s: s.targets, lambda n, m: m.view.target, _target),
    Rule("state", lambda s: True, lambda n, m: (m.view.draining, m.view.offline), _state),
    Rule("worker", lambda s: s.worker_ids, lambda n, m: (m.view.worker_id, m.view.name), _pinned),
    Rule(
        "label",
        lambda s: s.labels,
        lambda n, m: tuple(m.caps.labels.get(key) for key, _ in n),
        _labels,
    ),
    Rule("os", lambda s: s.os, lambda n, m: m.caps.os, _os),
    Rule("cpu_arch", lambda s: s.cpu_arch, lambda n, m: m.caps.cpu_arch, _arch),
    Rule("gpus", devices.need_of, devices.fact_of, _gpus, changes=True),
    Rule(
        "cpu_cores",
        lambda s: max(1, micro(s.cpu_cores)),
        lambda n, m: m.now.amounts[0:2],
        _cores,
        changes=True,
    ),
    Rule(
        "memory",
        lambda s: None if s.memory_gb is None else max(1, micro(s.memory_gb)),
        lambda n, m: m.now.amounts[2:4],
        _memory,
        changes=True,
    ),
    Rule("disk", lambda s: s.disk_gb, lambda n, m: m.caps.disk_gb, _disk),
    Rule(
        "data",
        lambda s: (s.data, s.data_here) if s.data else None,
        lambda n, m: (m.caps.data, m.view.target == "local"),
        _data,
    ),
    Rule(
        "secret",
        lambda s: (s.secrets, s.secrets_here) if s.secrets else None,
        lambda n, m: (m.caps.secrets, m.view.target == "local"),
        _secrets,
    ),
    Rule(
        "image",
        lambda s: s.image or None,
        lambda n, m: (m.caps.containers, m.caps.containers_note),
        _image,
    ),
    Rule(
        "python",
        lambda s: (s.python, s.interpreter, s.interpreter_version) if s.python else None,
        lambda n, m: _python_of(n, m),
        _python,
    ),
    Rule(
        "framework",
        lambda s: (s.frameworks, s.interpreter) if s.frameworks else None,
        lambda n, m: _frameworks_of(n, m),
        _frameworks,
    ),
    Rule("provider", lambda s: s.providers, lambda n, m: (m.is_rented, m.caps.provider), _provider),
    Rule("region", lambda s: s.regions, lambda n, m: (m.is_rented, m.caps.region), _region),
    Rule(
        "price",
        lambda s: None if s.max_hourly_cost is None else (s.max_hourly_cost, s.currency),
        lambda n, m: (m.is_rented, m.view.hourly_cost, m.view.currency),
        _price,
    ),
)

RESERVATION = Rule(
    "reservation",
    lambda s: (max(1, micro(s.cpu_cores)), micro(s.memory_gb or 0.0), devices.need_of(s)),
    lambda n, m: (m.now.amounts.kept, n[2] and devices.fact_of(n[2], m)),
    _reservation,
    changes=True,
)
"""Asked where something is reserved, of what would still run then."""


def _one_of(name: str, need: tuple[str, ...], have: str, prefix: str = "") -> tuple[Check, ...]:
    fit = Fit.YES if have in need else Fit.NEVER
    return (Check(name, fit, prefix + " or ".join(need), have, _gap(fit)),)


def _where(name: str, need: tuple[str, ...], have: tuple[bool, str | None]) -> tuple[Check, ...]:
    rented, found = have
    if found is None:
        fit = Fit.UNKNOWN if rented else Fit.YES
        text = "one that is not known yet" if rented else "none: a machine of one's own"
        return (Check(name, fit, f"{name} {' or '.join(need)}", text),)
    return _one_of(name, need, found, f"{name} ")


def _amount(name: str, need: int, total: int, free: int, ever: str, now: str, unit: str) -> Check:
    """More than there is: never. More than is free: busy. `ever` and `now` word the need."""
    if need > total:
        return Check(name, Fit.NEVER, ever, f"{_shown(total)}{unit} in all", 1 - total / need)
    left = max(free, 0)
    fit = Fit.YES if need <= free else Fit.BUSY
    gap = 0.0 if fit is Fit.YES else 1 - left / need
    return Check(name, fit, now, f"{_shown(left)} of {_shown(total)}{unit}", gap)


def _version(name: str, what: str, spec: str, have: str | None, known: bool) -> Check:
    need = what + spec if spec else what
    if not known:
        return Check(name, Fit.UNKNOWN, need, "not been looked at yet")
    if have is None:
        return Check(name, Fit.NEVER, need, "none", 1.0)
    met = meets(spec, have)
    if met is None:
        return Check(name, Fit.UNKNOWN, need, f"{have}, which is no version that can be compared")
    fit = Fit.YES if met else Fit.NEVER
    return Check(name, fit, need, have, _gap(fit))


@lru_cache(maxsize=4096)
def meets(spec: str, have: str) -> bool | None:
    """PEP 440. A pre-release that is installed counts as what it is. None: not a version."""
    if not spec:
        return True
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(spec).contains(Version(have), prereleases=True)
    except InvalidVersion:
        return None


def _python_of(need: tuple[str, str | None, str | None], machine: Machine) -> str | None:
    _, path, version = need
    found = machine.interpreter(path)
    if found is not None and found.version is not None:
        return found.version
    return version if path is not None and machine.view.target == "local" else None


def _frameworks_of(
    need: tuple[tuple[tuple[str, str], ...], str | None], machine: Machine
) -> tuple[str | None, ...] | None:
    names, path = need
    found = machine.interpreter(path)
    if found is None or found.frameworks is None:
        return None
    return tuple(found.frameworks.get(name) for name, _ in names)


def _gap(fit: Fit) -> float:
    return 0.0 if fit is Fit.YES else 1.0


def _shown(amount: int) -> str:
    return number(amount / 1_000_000)
