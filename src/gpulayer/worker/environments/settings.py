"""Which variables reach a builder: where the installers look for packages, and nothing of a job.

No loader variable and none that moves an installation elsewhere (`PIP_TARGET`, `PIP_USER`,
`UV_SYSTEM_PYTHON`): an environment is built where we say, whatever a terminal has set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from gpulayer.contracts.requirement_files import ALLOW

NAMES = (
    ALLOW,
    *"PATH HOME USER LOGNAME LANG LC_ALL TZ TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS "
    "XDG_DATA_HOME SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NETRC "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "CC CXX CFLAGS CXXFLAGS LDFLAGS CUDA_HOME CUDA_PATH PYENV_ROOT PYENV_VERSION "
    "UV_INDEX UV_DEFAULT_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_INDEX_STRATEGY UV_FIND_LINKS "
    "UV_OFFLINE UV_CONFIG_FILE UV_NO_CONFIG UV_CACHE_DIR UV_KEYRING_PROVIDER "
    "UV_NATIVE_TLS UV_SYSTEM_CERTS UV_INSECURE_HOST UV_CONSTRAINT UV_OVERRIDE UV_PRERELEASE "
    "UV_LINK_MODE UV_HTTP_TIMEOUT UV_HTTP_RETRIES UV_EXCLUDE_NEWER UV_TORCH_BACKEND "
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_NO_INDEX PIP_CONFIG_FILE PIP_CERT "
    "PIP_CLIENT_CERT PIP_TRUSTED_HOST PIP_CACHE_DIR PIP_CONSTRAINT PIP_KEYRING_PROVIDER PIP_PRE "
    "PIP_ONLY_BINARY PIP_NO_BINARY PIP_PREFER_BINARY PIP_DEFAULT_TIMEOUT PIP_RETRIES "
    "PIP_PROXY".split(),
)
_CREDENTIALS = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")

Lookup = Callable[[Sequence[str]], Mapping[str, str | None]]


def variables(worker: Mapping[str, str], terminal: Lookup | None = None) -> dict[str, str]:
    """Of the worker; for a job here what its terminal has of these names instead."""
    named = worker if terminal is None else terminal(NAMES)
    found = {name: value for name in NAMES if (value := named.get(name)) is not None}
    found |= {name: value for name, value in worker.items() if _CREDENTIALS.fullmatch(name)}
    return found


def secrets(environ: Mapping[str, str]) -> list[str]:
    """Values among these that must not be told on, longest first. One of a few characters would be
    met by chance; inside an address it is blotted out all the same."""
    found = {value for name, value in environ.items() if _CREDENTIALS.fullmatch(name)}
    for value in environ.values():
        for login in re.findall(r"://([^/@\s]+)@", value):
            found |= {login, *login.split(":", 1)[1:]}
    found |= {unquote(value) for value in found}
    return sorted((value for value in found if len(value) > _SHORT), key=len, reverse=True)


_SHORT = 3
