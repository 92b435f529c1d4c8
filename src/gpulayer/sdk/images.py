"""The digest of an image that is named by a tag, found out by whoever submits.

Asked in this order: its registry, over HTTPS with the login that this machine's engine has; an
engine here that has the image already. An engine is not needed for the first, a network not for the
second.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.contracts.images import HUB, Reference, is_pinned, parse, pinned
from gpulayer.errors import RefusedError

ENGINES = ("podman", "docker")
ENGINE_SECONDS = 20.0


def with_digests(specs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same jobs with their images pinned. Each image is asked for once. Raises
    `image-unresolved`."""
    known: dict[str, str] = {}
    return [_with_digest(spec, known) for spec in specs]


def _with_digest(spec: Mapping[str, Any], known: dict[str, str]) -> Mapping[str, Any]:
    image = spec.get("image")
    if not isinstance(image, str) or is_pinned(image) or (wanted := parse(image)) is None:
        return spec  # what is no reference is refused by the plane, with all else that is wrong
    if image not in known:
        known[image] = pinned(image, _digest_of(image, wanted))
    return {**spec, "image": known[image]}


def _digest_of(image: str, wanted: Reference) -> str:
    why = ""
    if not wanted.is_local:
        from gpulayer.sdk.registry import RegistryError, digest_at

        try:
            return digest_at(wanted)
        except RegistryError as error:
            why = f"{wanted.registry}: {error}"
    found, said = _here(wanted)
    if found:
        return found
    raise RefusedError(
        "image-unresolved",
        f"nobody could say which digest {image} is now",
        why="; ".join(part for part in (why, said) if part),
        hint=(
            f"podman pull {wanted.by_tag}",
            f"podman image inspect --format '{{{{.Digest}}}}' {wanted.by_tag}",
            f"gpulayer run --image {wanted.name}@sha256:DIGEST -- COMMAND",
        ),
    )


def _here(wanted: Reference) -> tuple[str, str]:
    """What an engine of this machine calls it: the digest of its registry, else its own id."""
    programs = [found for engine in ENGINES if (found := shutil.which(engine)) is not None]
    for program in programs:
        for name in dict.fromkeys((wanted.by_tag, _short(wanted))):
            words = [program, "image", "inspect", "--format",
                     "{{range .RepoDigests}}{{.}} {{end}}{{.Id}}", name]  # fmt: skip
            try:
                told = subprocess.run(
                    words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=ENGINE_SECONDS, check=False,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired):
                continue
            if told.returncode == 0 and told.stdout.split():
                return _best(told.stdout.split(), wanted), ""
    if not programs:
        return "", "no podman and no docker here that could know it"
    return "", f"{' and '.join(map(os.path.basename, programs))} here do not have it"


def _short(wanted: Reference) -> str:
    """As Docker calls what is its own: built here, it has no registry."""
    short = wanted.repository.removeprefix("library/") if wanted.registry == HUB else wanted.name
    return f"{short}:{wanted.tag or 'latest'}"


def _best(told: Sequence[str], wanted: Reference) -> str:
    *digests, identity = told
    for digest in digests:
        name, _, value = digest.partition("@")
        found = parse(f"{name}@{value}")
        if found is not None and found.name == wanted.name:
            return value
    return identity if identity.startswith("sha256:") else f"sha256:{identity}"
