"""A bucket of any store that speaks S3, through obstore, and what it refuses, in our words.

obstore is loaded only where a bucket is named (the extra `s3`). Keys, region and endpoint come from
the environment of whoever opens it, by the names that all such tools share. No secret is part of an
address, of an error or of a log line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from gpulayer.artifacts.web import WAY
from gpulayer.errors import GPULayerError, StorageError, UsageError

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME = "s3://"
SILENT_SECONDS = 120.0
"""How long a store may say nothing."""
TRIES = 5
"""So often a request is made again that failed for no fault of ours."""
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
VARIABLES = (
    *KEYS, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ALLOW_HTTP",
)  # fmt: skip
"""What is read of the environment here. Without keys obstore asks where the cloud puts them: a
role of the machine, a web identity, a container's."""


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """All that a store may want to know of an environment."""
    return {
        name: value
        for name, value in environ.items()
        if value and (name.startswith("AWS_") or name in WAY)
    }


class Address(NamedTuple):
    """`s3://bucket/path`."""

    bucket: str
    path: str
    """Without slashes at its ends; perhaps nothing."""

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.path}".rstrip("/")


def parse(text: str) -> Address:
    """Raises `usage` for what is none, and for one with a key in it."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise UsageError(
            "usage",
            f"{text.rpartition('@')[2]!r} is no address of a bucket",
            why="it is s3://BUCKET or s3://BUCKET/PREFIX; keys come from AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY",
        )
    return Address(found[1], (found[2] or "").strip("/"))


_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/[^?#@\x00-\x1f\x7f]*)?")


class Bucket:
    """The objects below one address. Thread-safe."""

    def __init__(
        self, address: Address, environ: Mapping[str, str], silent_seconds: float = SILENT_SECONDS
    ) -> None:
        """Asks nobody yet. Raises `bucket-refused` where obstore is missing, `not-encrypted`."""
        self.address = address
        said = {name: value for name in VARIABLES if (value := environ.get(name))}
        self.endpoint = said.get("AWS_ENDPOINT_URL_S3") or said.get("AWS_ENDPOINT_URL", "")
        self._secrets = [value for name, value in said.items() if name in KEYS]
        self.store: S3Store = _opened(address, said, self.endpoint, silent_seconds)

    @property
    def where(self) -> str:
        return f"{self.address} at {self.endpoint}" if self.endpoint else str(self.address)

    @contextmanager
    def asking(self, missing: Callable[[], GPULayerError] | None = None) -> Iterator[None]:
        """Turn what the store says into our errors. `missing`: for an object that is not there."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if missing is not None and "NoSuchBucket" not in str(error):
                raise missing() from None
            raise self._refused(error) from None
        except (BaseError, OSError) as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> StorageError:
        said = str(error)
        code = _CODE.search(said)
        name = code[1] if code else ""
        slug = next((slug for slug, sign in _SIGNS if sign(error, name, said)), _UNKNOWN)
        message, hint = _WORDS[slug]
        return StorageError(
            slug, message, where=self.where, why=self._clean(_why(said, name)), hint=hint
        )

    def _clean(self, text: str) -> str:
        """What a store says back may quote a key."""
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return text


def _opened(
    address: Address, said: Mapping[str, str], endpoint: str, silent_seconds: float
) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise StorageError(
            "bucket-refused",
            "A bucket needs obstore, which is not installed.",
            where=str(address),
            why=str(error),
            hint="pip install 'gpulayer[s3]'",
        ) from error
    is_plain = endpoint.startswith("http://")
    if is_plain and not (_is_loopback(endpoint) or said.get("AWS_ALLOW_HTTP") in _TRUE):
        raise StorageError(
            "not-encrypted",
            "The bucket would be spoken to without TLS, and everybody on the way could read it.",
            where=endpoint,
            why="AWS_ENDPOINT_URL begins with http://; AWS_ALLOW_HTTP=true says that this is meant",
            hint="export AWS_ALLOW_HTTP=true",
        )
    names = {
        "access_key_id": said.get("AWS_ACCESS_KEY_ID"),
        "secret_access_key": said.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": said.get("AWS_SESSION_TOKEN"),
        "region": said.get("AWS_REGION") or said.get("AWS_DEFAULT_REGION") or _REGION,
        "endpoint": endpoint or None,
    }
    config: Any = {name: value for name, value in names.items() if value}
    return S3Store(
        address.bucket,
        prefix=address.path or None,
        config=config,
        virtual_hosted_style_request=False,
        client_options={
            "allow_http": is_plain,
            "connect_timeout": "5s",
            "read_timeout": f"{silent_seconds:g}s",
            "timeout": "1day",
        },
        retry_config={"max_retries": TRIES, "retry_timeout": timedelta(seconds=silent_seconds)},
    )


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _why(said: str, code: str) -> str:
    """Its own words, and not the pages around them."""
    if "169.254." in said:  # where a machine of a cloud is asked for its role
        return "AWS_ACCESS_KEY_ID is not set, and this machine has no role of its own"
    message = _MESSAGE.search(said)
    if code:
        return f"{code}: {message[1].strip()}"[:300] if message else code
    first = said.partition("\n")[0].replace("Generic S3 error: ", "")
    return re.sub(r"https?://\S+", lambda url: url[0].partition("?")[0], first)[:300]


_TRUE = ("1", "true", "True")
_REGION = "us-east-1"
_CODE = re.compile(r"<Code>\s*(\w{1,60})\s*</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_FULL = ("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage")
_RIGHTS = ("PermissionDeniedError", "UnauthenticatedError")
_UNKNOWN = "bucket-unreachable"

_Sign = Callable[[Exception, str, str], bool]
_SIGNS: tuple[tuple[str, _Sign], ...] = (
    ("bucket-not-found", lambda error, code, said: code == "NoSuchBucket"),
    (
        "bucket-full",
        lambda error, code, said: code in _FULL or "no space left" in said or "code: 507" in said,
    ),
    (
        "bucket-refused",
        lambda error, code, said: type(error).__name__ in _RIGHTS or "169.254." in said,
    ),
)
_WORDS = {
    "bucket-not-found": ("There is no such bucket.", "gpulayer help bucket-not-found"),
    "bucket-full": ("The bucket is full, so nothing was kept.", "gpulayer gc --dry-run"),
    "bucket-refused": ("The store does not let us in.", "gpulayer help bucket-refused"),
    "bucket-unreachable": ("The store does not do it now.", "gpulayer help bucket-unreachable"),
}
