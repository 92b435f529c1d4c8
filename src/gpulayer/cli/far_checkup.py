"""What `doctor` says of other machines: what this one serves, which server is meant, and the
workers that it joined as. Nothing is asked of another machine."""

from __future__ import annotations

from typing import Any

from gpulayer.api.wire import Wire
from gpulayer.errors import GPULayerError
from gpulayer.sdk.places import Places


def look(places: Places, processes: list[dict[str, Any]], notes: list[str]) -> dict[str, str]:
    """Facts, as far as there are any. Adds to the processes and the notes."""
    facts: dict[str, str] = {}
    if any(entry["kind"] == "plane" and "note" not in entry for entry in processes):
        facts |= _serves(places)
    try:
        facts |= _server(places)
    except GPULayerError as error:
        notes.append(f"the chosen server cannot be used: {error.message}; {error.why}")
    for fact in _workers(places, processes, notes):
        facts["worker of"] = f"{facts['worker of']}; {fact}" if "worker of" in facts else fact
    return facts


def _serves(places: Places) -> dict[str, str]:
    try:
        serves = Wire(places.plane_socket, tries=1).call("GET", "/v1/doctor").get("serves")
    except GPULayerError:
        return {}
    if not serves:
        return {}
    pin = f" with certificate sha256.{serves['fingerprint']}" if serves.get("fingerprint") else ""
    return {"serves": f"{serves['address']} as {serves['name']}{pin}"}


def _server(places: Places) -> dict[str, str]:
    from gpulayer.sdk.servers import chosen

    server = chosen(places.home)
    return {} if server is None else {"server": f"{server.name}, {server.endpoint.url}"}


def _workers(places: Places, processes: list[dict[str, Any]], notes: list[str]) -> list[str]:
    from gpulayer.sdk.joined import Joined
    from gpulayer.sdk.processes import running

    found = []
    for joined in Joined.all(places.home):
        facts = joined.facts()
        name = facts.name if facts is not None else "?"
        found.append(f"{joined.name} as {name}")
        processes += [
            {"kind": kind, "pid": pid, "note": f"worker of {joined.name}"}
            for kind, pid in running(joined.places)
        ]
        if joined.ended():
            notes.append(
                f"{joined.name} wants this worker no more ({joined.ended()}); "
                f"forget it: gpulayer leave {joined.name}"
            )
        elif not joined.runs():
            notes.append(f"the worker of {joined.name} does not run; go on with it: gpulayer join")
    return found
