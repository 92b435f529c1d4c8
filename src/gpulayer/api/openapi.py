"""The API described for machines (OpenAPI 3.1.1) and for people, from the tables of routes.

Nothing is written twice: paths, limits and rights are `routes`, bodies and answers are `shapes`,
the spec of a job is its own JSON Schema. The page loads nothing from anywhere.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpulayer._version import WIRE, __version__
from gpulayer.api import shapes
from gpulayer.api.routes import ROUTES, Route
from gpulayer.contracts.schema import jobspec_schema

_HERE = "#/components/schemas/"
_PLAIN: Mapping[str, Mapping[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "Any": {},
}
_ABOUT = {
    "selector": "A job's id, the beginning of one, its name, or `last`.",
    "digest": "SHA-256 in hex.",
    "wait": "Seconds that the call may be held until there is an answer.",
    "after": "Go on behind this number.",
    "offset": "Go on from there: nothing, or what `X-Gpulayer-Next` said.",
}
_STREAMS = {"events", "logs"}


@cache
def document() -> Mapping[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "GPUlayer",
            "version": __version__,
            "description": f'Wire {WIRE}. A refusal is `{{"error": ...}}` with a stable `code`.',
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


@cache
def text() -> bytes:
    return json.dumps(document(), separators=(",", ":")).encode()


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind, as `shapes` names kinds."""
    kinds = _alternatives(kind)
    if len(kinds) > 1:
        return {"anyOf": [schema(one) for one in kinds]}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if kind.startswith("tuple["):
        return {"type": "array", "items": schema(kind[6:].removesuffix(", ...]"))}
    if kind.startswith("Mapping["):
        values = schema(kind.removeprefix("Mapping[str, ")[:-1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    return {"$ref": _HERE + kind}


def _alternatives(kind: str) -> list[str]:
    """`tuple[str | None, ...] | None` is two."""
    parts, depth = [""], 0
    for piece in re.split(r"( \| |\[|\])", kind):
        depth += (piece == "[") - (piece == "]")
        if piece == " | " and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _components() -> dict[str, Any]:
    spec = json.loads(json.dumps(jobspec_schema()).replace("#/$defs/", _HERE))
    found: dict[str, Any] = dict(spec.pop("$defs"))
    spec.pop("$schema")
    found["JobSpec"] = spec
    for name, fields in shapes.COMPONENTS.items():
        found[name] = _object(fields)
    for message in shapes.MESSAGES:
        found[message.__name__] = _object(
            {
                field.name + ("" if _is_needed(field) else "?"): str(field.type)
                for field in dataclasses.fields(message)
            }
        )
    return found


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    none = dataclasses.MISSING
    return field.default is none and field.default_factory is none


def _object(fields: Mapping[str, str]) -> dict[str, Any]:
    """More fields than these may come: a newer version adds some."""
    needed = [name for name in fields if not name.endswith("?")]
    return {
        "type": "object",
        "properties": {name.rstrip("?"): schema(kind) for name, kind in fields.items()},
        **({"required": needed} if needed else {}),
    }


def _operation(route: Route) -> dict[str, Any]:
    shape = shapes.ROUTES[route.name]
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "tags": [route.path.split("/")[2] if route.path.startswith("/v1/") else "plane"],
        "responses": {
            "200": {"description": "Done.", "content": _content(route, shape.answer)},
            "default": {"description": "Refused.", "content": _content(route, "Refusal")},
        },
        "security": [] if route.action in ("public", "enrol") else [{"token": []}],
        "x-gpulayer-action": route.action,
    }
    if shape.unwell:
        content = _content(route, shape.unwell)
        found["responses"]["503"] = {"description": "Not now.", "content": content}
    named = re.findall(r"{(\w+)}", route.path)
    parameters = [_parameter(name, "path", "str") for name in named]
    parameters += [_parameter(name, "query", kind) for name, kind in shape.query.items()]
    if route.name in _STREAMS:
        parameters.append(_parameter("Last-Event-ID", "header", "str"))
    if parameters:
        found["parameters"] = parameters
    if shape.body:
        content = _content(route, shape.body)
        found["requestBody"] = {"required": shape.body != "Any", "content": content}
    return found


def _content(route: Route, kind: str) -> dict[str, Any]:
    match kind:
        case "bytes":
            content: dict[str, Any] = {"application/octet-stream": {}}
        case "text" if route.name == "docs":
            return {"text/html": {"schema": {"type": "string"}}}
        case "text":
            return {"text/plain": {"schema": {"type": "string"}}}
        case _:
            content = {"application/json": {"schema": schema(kind)}}
    if route.name in _STREAMS and kind != "Refusal":
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return content


def _parameter(name: str, place: str, kind: str) -> dict[str, Any]:
    about = {"description": _ABOUT[name]} if name in _ABOUT else {}
    return {"name": name, "in": place, "required": place == "path", "schema": schema(kind), **about}


# --- the page -------------------------------------------------------------------------------

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font:13px/1.5 ui-monospace,monospace}"
    "pre{overflow:auto;background:#8881;padding:.5rem}"
    "summary{cursor:pointer}b{display:inline-block;min-width:4.5rem}:root{color-scheme:light dark}"
)


@cache
def page() -> bytes:
    """One HTML document, complete in itself."""
    return "\n".join(_page()).encode()


def _page() -> Iterator[str]:
    yield "<!doctype html><html lang=en><meta charset=utf-8><title>GPUlayer API</title>"
    yield f"<style>{_STYLE}</style><h1>GPUlayer API</h1>"
    yield f"<p>Version {html.escape(__version__)}, wire {WIRE}. For machines: "
    yield "<a href=openapi.json>openapi.json</a>. Calls carry <code>Authorization: Bearer</code>."
    for route in ROUTES:
        operation = document()["paths"][route.path][route.method.lower()]
        yield f"<details id={route.name}><summary><b>{route.method}</b> "
        yield f"<code>{html.escape(route.path)}</code> {html.escape(route.about)}</summary>"
        yield f"<p>Needs <code>{html.escape(route.action)}</code>.</p>"
        yield f"<pre>{_shown({k: operation[k] for k in _TOLD if k in operation})}</pre></details>"
    yield "<h2>Objects</h2>"
    for name, told in sorted(document()["components"]["schemas"].items()):
        yield f"<details id={name}><summary><code>{name}</code></summary>"
        yield f"<pre>{_shown(told)}</pre></details>"


_TOLD = ("parameters", "requestBody", "responses")


def _shown(value: object) -> str:
    """JSON in which each reference leads to its object."""
    told = html.escape(json.dumps(value, indent=2), quote=False)
    return re.sub(rf'"{_HERE}(\w+)"', r'<a href="#\1">\1</a>', told)
