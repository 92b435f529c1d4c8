"""One question to a registry: which digest a tag has now (OCI Distribution Specification).

A registry on loopback is spoken to without TLS where it has none, as engines do. Logins are those
that `podman login` or `docker login` left in a file; helpers that keep them elsewhere are not
started.
"""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any

from gpulayer.contracts.images import HUB, LATEST, Reference

SECONDS = 10.0
_HUB_HOST = "registry-1.docker.io"
_HUB_LOGIN = "https://index.docker.io/v1/"
_KINDS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ANSWER_BYTES = 1 << 20


class RegistryError(Exception):
    """It could not be asked, or has no such image."""


def digest_at(wanted: Reference) -> str:
    """Of an index where the image is made for several machines: each engine takes its own part."""
    host = _HUB_HOST if wanted.registry == HUB else wanted.registry
    path = f"/v2/{wanted.repository}/manifests/{wanted.tag or LATEST}"
    why = "it does not answer"
    for scheme in ("https", "http") if _is_here(host) else ("https",):
        try:
            return _asked(f"{scheme}://{host}{path}", wanted)
        except urllib.error.HTTPError as error:
            raise RegistryError(_meaning(error.code, wanted)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            why = str(getattr(reason, "strerror", None) or reason)
    raise RegistryError(why)


def _asked(url: str, wanted: Reference) -> str:
    login = _login(wanted.registry)
    headers = {"Accept": _KINDS}
    try:
        reply, _ = _open(url, headers, "HEAD")
    except urllib.error.HTTPError as error:
        challenge = error.headers.get("WWW-Authenticate", "")
        if error.code != 401 or not challenge:
            raise
        asked = {"Authorization": _authorization(challenge, login)}
        reply, _ = _open(url, headers | asked, "HEAD")
    digest = reply.get("Docker-Content-Digest", "")
    if _DIGEST.fullmatch(digest) is None:
        raise ValueError("it does not say the digest")
    return digest


def _open(url: str, headers: Mapping[str, str], method: str) -> tuple[Message, bytes]:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"it points to {url}")
    request = urllib.request.Request(url, headers=dict(headers), method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:  # noqa: S310
        return reply.headers, reply.read(_ANSWER_BYTES)


def _authorization(challenge: str, login: str) -> str:
    """For the way that it asks for: the login itself, or a token that is given for it."""
    kind, _, rest = challenge.partition(" ")
    if kind.lower() != "bearer":
        return f"Basic {login}"
    asked = dict(_PARAMETER.findall(rest))
    realm = asked.pop("realm", "")
    if not realm.startswith(("https://", "http://127.", "http://localhost")):
        raise ValueError("it wants a login over an open line")
    query = urllib.parse.urlencode(
        {key: asked[key] for key in ("service", "scope") if key in asked}
    )
    headers = {"Authorization": f"Basic {login}"} if login else {}
    answer = json.loads(_open(f"{realm}?{query}", headers, "GET")[1])
    return f"Bearer {answer.get('token') or answer.get('access_token')}"


def _login(registry: str) -> str:
    """Base64 of user and password; empty where there is none."""
    names = (registry, _HUB_LOGIN) if registry == HUB else (registry, f"https://{registry}")
    for path in _files():
        try:
            with open(path, encoding="utf-8") as file:
                logins: Any = json.load(file).get("auths") or {}
            for name in names:
                if (found := logins.get(name, {}).get("auth")) and base64.b64decode(found):
                    return str(found)
        except (OSError, ValueError, AttributeError):
            continue
    return ""


def _files() -> Iterator[str]:
    environ = os.environ
    home = environ.get("HOME", "/")
    if file := environ.get("REGISTRY_AUTH_FILE"):
        yield file
    if folder := environ.get("XDG_RUNTIME_DIR"):
        yield os.path.join(folder, "containers", "auth.json")
    yield os.path.join(environ.get("DOCKER_CONFIG", f"{home}/.docker"), "config.json")
    yield os.path.join(environ.get("XDG_CONFIG_HOME", f"{home}/.config"), "containers/auth.json")


def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    return name == "localhost" or name.startswith("127.")


def _meaning(code: int, wanted: Reference) -> str:
    if code == 404:
        return f"it has no {wanted.repository}:{wanted.tag or LATEST}"
    if code in (401, 403):
        return "it wants a login, or has no such image"
    return f"it answered {code}"
